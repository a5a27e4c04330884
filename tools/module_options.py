"""The options of the commands that look at modules, and run, check and translate them."""

from __future__ import annotations

import argparse

from xdsl_spirv.tools.program_options import FINDINGS, RESULTS, as_json, dims, function, inputs


def opt(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of xdsl-opt"
    )


def completion(command: argparse.ArgumentParser) -> None:
    command.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def translate(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT", help="an MLIR file, or a SPIR-V binary")
    command.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="where to write it: a binary; of a binary MLIR text, unless the name ends in .spv",
    )
    passes(command)
    command.add_argument(
        "--module", metavar="NAME", help="the spirv.module's symbol if there are several"
    )
    command.add_argument("--names", action="store_true", help="keep names (OpName)")
    command.add_argument("--lines", action="store_true", help="keep source positions (OpLine)")
    command.add_argument(
        "--unchecked",
        action="store_true",
        help="read a binary that breaks the dialect's rules (without passes)",
    )


def passes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-p",
        "--passes",
        default="",
        metavar="PIPELINE",
        help="run passes first, as in 'linalg-to-spirv{target=lavapipe}'",
    )


def interpret(command: argparse.ArgumentParser) -> None:
    as_json(command, f"{RESULTS}; {FINDINGS}; printed (place, values; with --print)")
    command.add_argument("input", metavar="INPUT", help="an MLIR file, or a SPIR-V binary")
    command.add_argument(
        "--function",
        metavar="NAME",
        help="the func.func on tensors, or the entry point of a kernel (main, or the only one)",
    )
    passes(command)
    dims(command)
    command.add_argument(
        "--subgroup-size",
        type=int,
        metavar="N",
        help="invocations of a subgroup (that of the target the module is scheduled for, or 32)",
    )
    command.add_argument(
        "--grid",
        default="1x1x1",
        metavar="X[,Y[,Z]]",
        help="workgroups, where an entry point is run; 4 is 4,1,1 (%(default)s)",
    )
    command.add_argument(
        "--buffer",
        dest="buffers",
        action="append",
        default=[],
        metavar="BINDING=x.npy",
        help="run an entry point of a spirv.module over buffers by BINDING, SET.BINDING or "
        "name, with [NUMBER] behind it in an array of buffers",
    )
    command.add_argument("--entry", dest="function", metavar="NAME", help="the same as --function")
    command.add_argument(
        "--spec",
        action="append",
        default=[],
        metavar="ID=VALUE",
        help="a specialization constant of a module that is run by an entry point (repeat)",
    )
    command.add_argument(
        "--push",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a push constant by its member's name, the value as JSON: 3, 0.5, [1, 2] (repeat)",
    )
    command.add_argument(
        "--push-bytes", metavar="HEX", default="", help="all push constants, as hexadecimal digits"
    )
    debugging(command)
    inputs(command)


def debugging(command: argparse.ArgumentParser) -> None:
    """The options of checks and debugging."""
    _checks(command)
    _stepping(command)


def _checks(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--check",
        "--sanitize",
        metavar="NAMES",
        help="look for undefined behaviour: all, or some of rules, undefined, bounds, alignment, "
        "overlap, barriers, races, permute, choices, counters; exit 1 if any is found",
    )
    command.add_argument(
        "--permute",
        action="store_true",
        help="the check `permute` in addition to --check: run in several orders of invocations",
    )
    command.add_argument(
        "--robust",
        action="store_true",
        help="with robustBufferAccess2: outside of buffers reads are 0 and writes are lost",
    )
    command.add_argument(
        "--schedule-seed",
        type=int,
        metavar="N",
        help="run workgroups, and parts of them from barrier to barrier, in the order of this "
        "seed, without checks and debugging",
    )
    command.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="RULE[:TEXT]",
        help="findings that are intended, by rule and by a part of their text (repeat)",
    )
    command.add_argument("--check-json", metavar="FILE", help="write the findings as JSON")


def _stepping(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--max-steps", type=int, metavar="N", help="stop after so many executed blocks"
    )
    command.add_argument(
        "--break",
        dest="breaks",
        action="append",
        default=[],
        metavar="WHERE",
        help="stop in pdb after %%name, #number or a source line (repeat)",
    )
    command.add_argument(
        "--step",
        type=int,
        default=0,
        metavar="N",
        help="after --break also stop after each of the next N instructions",
    )
    command.add_argument(
        "--print",
        dest="prints",
        action="append",
        default=[],
        metavar="WHERE",
        help="print the value of %%name, #number or a source line whenever it is made (repeat)",
    )
    command.add_argument(
        "--invocation",
        metavar="WORKGROUP:INVOCATION",
        help="what --break and --print look at: one invocation, by linear indexes",
    )
    command.add_argument("--trace", metavar="FILE.jsonl", help="write what every instruction made")


def check_passes(command: argparse.ArgumentParser) -> None:
    as_json(
        command,
        "inputs (how many were compared), skipped, undefined, passes (pass, share of the allowed "
        "error), finding (pass, wrong, failure; or null); with --prove: proofs "
        "(pass, result, reason)",
    )
    command.add_argument("input", metavar="INPUT.mlir", help="the module before the passes")
    command.add_argument(
        "-p",
        "--passes",
        required=True,
        metavar="PIPELINE",
        help="the passes, as in 'linalg-to-spirv{target=lavapipe}' or 'canonicalize,cse'",
    )
    command.add_argument(
        "--inputs",
        type=int,
        default=10,
        metavar="N",
        help="sets of inputs that it is run on (%(default)s)",
    )
    command.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the random ones (%(default)s)"
    )
    function(command)
    command.add_argument(
        "--subgroup-size",
        type=int,
        metavar="N",
        help="invocations of a subgroup (the target's, or 32)",
    )
    command.add_argument(
        "--grid",
        default="1x1x1",
        metavar="X[,Y[,Z]]",
        help="workgroups where there is no function on tensors (%(default)s)",
    )
    command.add_argument(
        "--length",
        type=int,
        default=64,
        metavar="N",
        help="elements of runtime arrays (%(default)s)",
    )
    command.add_argument(
        "-o",
        "--output",
        metavar="out.npz",
        help="where to write the smallest inputs on which results differ",
    )
    command.add_argument(
        "--prove",
        action="store_true",
        help="prove that kernels keep their results for all contents, instead of running them",
    )


def prove(command: argparse.ArgumentParser) -> None:
    as_json(command, "verdict, reasons, premises, offered, findings")
    command.add_argument("kernel", metavar="KERNEL", help="GLSL, SPIR-V, MLIR, or a .kernel.toml")
    command.add_argument("--entry", metavar="NAME", help="the entry point, if there are several")
    command.add_argument(
        "--assume",
        action="append",
        metavar="PREMISE",
        help="what holds in every launch, as in 'len(Output) >= n'; may be given several times",
    )
    command.add_argument(
        "--seconds",
        type=float,
        default=5.0,
        metavar="S",
        help="limit of one question to one solver (%(default)s)",
    )


def validate(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "input", metavar="INPUT.spv|.mlir", help="- for a binary on standard input"
    )
    command.add_argument(
        "--target-env",
        metavar="ENV",
        help="spv1.0 to spv1.6, vulkan1.0 to vulkan1.4 (by the module's capabilities)",
    )
    command.add_argument(
        "--target",
        metavar="NAME|FILE",
        help="a device, as nvidia-h200, or a target file, whose Workgroup memory must suffice",
    )
    command.add_argument(
        "--module", metavar="NAME", help="the spirv.module's symbol if there are several"
    )
    as_json(command, "findings, spirv_val (with --spirv-val)")
    command.add_argument(
        "--spirv-val", action="store_true", help="run Khronos' validator too and show differences"
    )


def disassemble(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT.spv", help="a SPIR-V binary, - for standard input")
    command.add_argument(
        "-o", "--output", default="-", metavar="OUTPUT.spvasm", help="a file; - prints"
    )
    command.add_argument("--raw-id", action="store_true", help="print ids by their numbers")
    command.add_argument("--no-header", action="store_true", help="leave the header comments out")
    command.add_argument("--no-indent", action="store_true", help="do not align the instructions")
    command.add_argument("--offsets", action="store_true", help="show where instructions start")
    command.add_argument(
        "--tolerant",
        action="store_true",
        help="print what contradicts the grammar as words instead of stopping",
    )


def assemble(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT.spvasm", help="assembly, - for standard input")
    command.add_argument(
        "-o", "--output", required=True, metavar="OUTPUT.spv", help="the binary to write"
    )
    command.add_argument(
        "--version-of-spirv", metavar="1.6", help="instead of the one in the header comments"
    )
    command.add_argument(
        "--renumber", action="store_true", help="number all ids anew, as spirv-as does by default"
    )
