"""
The command `xdsl-spirv`: what its arguments are.

What a subcommand does is imported when it is chosen, so that `xdsl-spirv --help` and a mistyped
option cost nothing. Every failure ends in one message on standard error and a status that says
whose it is (`failing.py`); `--debug` shows where it was raised.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from xdsl_spirv.tools.failing import end_by_exception, guarded
from xdsl_spirv.upstream.collection import lasting

DESCRIPTION = "SPIR-V for machine learning: compile, run, check and translate kernels."


def _command(name: str, module: str) -> Callable[[argparse.Namespace], int]:
    """A function of a module of `tools/`, imported when called."""

    def command(arguments: argparse.Namespace) -> int:
        path = f"xdsl_spirv.tools.{module}"
        if path not in sys.modules:
            with lasting():
                import_module(path)
        return getattr(sys.modules[path], name)(arguments)

    return command


Declare: TypeAlias = Callable[[argparse.ArgumentParser], None]


class _Command(argparse.ArgumentParser):
    """A subcommand whose options are declared when it is chosen."""

    declare: Declare | None = None

    def parse_known_args(self, *given: Any, **named: Any) -> Any:
        if self.declare is not None:
            self.declare(self)
            self.declare = None
        return super().parse_known_args(*given, **named)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    top = argparse.ArgumentParser(prog="xdsl-spirv", description=DESCRIPTION)
    top.add_argument("--version", action="store_true", help="print the versions and exit")
    common = _Command(add_help=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Command)

    def add(
        name: str,
        help: str,
        declare: Declare | None,
        module: str = "commands",
        function: str = "",
    ) -> None:
        command = commands.add_parser(name, help=help, description=help, parents=[common])
        command.set_defaults(command=_command(function or name, module))
        command.declare = declare

    text = "Compile a model, or linalg on tensors, into a program for a device."
    add("compile", text, _compile, "compile")
    add("run", "Run a compiled program, or compile, run and compare a model.", _run)
    add("generate", "Let a language model answer.", _generate, "generate")
    add("explain", "Say what becomes of a model on a device, and why.", _explain, "explain")
    text = "List the Vulkan devices, or describe one for --target."
    add("devices", text, _devices, "devices")
    text = "Find out whether programs run on a Vulkan device, and why not."
    add("doctor", text, None, "doctor")
    add("tune", "Search the fastest schedules on a Vulkan device.", _tune, "tune")
    add("translate", "MLIR to a SPIR-V binary, or a binary to MLIR.", _translate)
    add("interpret", "Run a host function at any stage of its lowering.", _interpret)
    add("test", "Test kernels without a GPU.", _test, "kernel_test.command")
    text = "Find the first pass that changes results."
    add("check-passes", text, _check_passes, "check_passes", "check")
    add("validate", "Check a SPIR-V binary against all rules.", _validate, "validate")
    add("disassemble", "Print a SPIR-V binary as assembly.", _disassemble, "text")
    add("assemble", "Write SPIR-V assembly as a binary.", _assemble, "text")
    add("opt", "xdsl-opt, which here also reads .spv and .spvasm.", _opt, "opt")
    return top


def _opt(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="those of xdsl-opt"
    )


def _compile(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT.onnx|.mlir")
    command.add_argument("--target", required=True, help="a device's name, or a target file")
    _dims(command)
    _constants(command)
    _states(command)
    _limits(command)
    _jobs(command)
    command.add_argument("-o", "--output", required=True, metavar="DIR", help="the program")
    command.add_argument(
        "--text", action="store_true", help="also write each kernel as text, kernels/NAME.mlir"
    )
    command.add_argument(
        "--trace-passes",
        metavar="DIR",
        help="write the module after every pass, and a page of what each one changed",
    )
    command.add_argument("--function", help="host function (main, or the only one)")
    command.add_argument(
        "--functions",
        metavar="NAME,NAME",
        help="several functions in one program, which share weights and states",
    )
    command.add_argument(
        "--weights",
        metavar="FILE.safetensors",
        help="values of the arguments that are called like its tensors",
    )


def _explain(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "input", metavar="MODEL.onnx|.mlir|DIR", help="a model, or what `compile` wrote"
    )
    command.add_argument("--target", help="a device's name, or a target file")
    _dims(command)
    _constants(command)
    _states(command)
    _limits(command)
    _jobs(command)
    command.add_argument("--function", help="host function (main, or the only one)")
    command.add_argument("--weights", metavar="FILE.safetensors", help="as for `compile`")
    command.add_argument(
        "--format", choices=("text", "json", "html"), help="(text, or as the output's name says)"
    )
    command.add_argument("-o", "--output", metavar="FILE", help="where to write it")
    command.add_argument(
        "--device",
        metavar="NAME",
        help="also run it there and show each layer's time: interpreter, vulkan or vulkan:N",
    )
    command.add_argument(
        "--timeout", type=float, default=300.0, metavar="SECONDS", help="for a device (%(default)g)"
    )
    command.add_argument(
        "--in-process", action="store_true", help="use a Vulkan driver in this process"
    )
    command.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        metavar="NAME=x.npy",
        help="an input's value with --device (random where none is given)",
    )
    command.set_defaults(random=None)


def _limits(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATH=LAYER,...",
        help="let only these layers (ONNX nodes, or names in MLIR) take a path: "
        "cooperative-matrix, rotate, dot or fma (repeat)",
    )
    command.add_argument(
        "--except",
        dest="excluded",
        action="append",
        default=[],
        metavar="PATH=LAYER,...",
        help="do not let these layers take a path (repeat)",
    )


def _jobs(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="processes that lower kernels (the processors there are, at most 8; 1: this one)",
    )


def _dims(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--dim",
        dest="dims",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="an open dimension of an ONNX file's inputs: its name, or INPUT.POSITION, and ? for "
        "what is known only when it runs; of a compiled program, a size of random inputs (repeat)",
    )


def _constants(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--constant",
        dest="constants",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input of an ONNX file that is the same in every run: a number, or a .npy file; it "
        "decides shapes and branches, and is no input any more (repeat)",
    )


def _states(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--context",
        type=int,
        metavar="N",
        help="make what an ONNX model takes of past runs and gives to the next one state of a "
        "session, with room for N tokens: functions prefill and decode",
    )
    command.add_argument(
        "--state",
        dest="states",
        action="append",
        default=[],
        metavar="INPUT=OUTPUT",
        help="such an input and the output as which it goes on, where names do not say (repeat)",
    )


def _inputs(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        metavar="NAME=x.npy",
        help="an input's value (repeat for each); of one that is a number, NAME=5",
    )
    command.add_argument(
        "--random", type=int, metavar="SEED", help="random values for inputs that are not given"
    )
    command.add_argument("-o", "--output", metavar="out.npz", help="where to write the results")


def _run(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "program", metavar="DIR|MODEL.onnx", help="what `xdsl-spirv compile` wrote, or a model"
    )
    command.add_argument(
        "--target", help="of a model: what to compile it for (the best device there is)"
    )
    _dims(command)
    _constants(command)
    _states(command)
    _limits(command)
    _jobs(command)
    command.add_argument(
        "--no-compare", action="store_true", help="of a model: do not compare with onnxruntime"
    )
    command.add_argument(
        "--device",
        metavar="NAME",
        help="interpreter, vulkan or vulkan:N (XDSL_SPIRV_DEVICE, or else the best device there "
        "is that can run the program, or else the interpreter); of a model also reference: as it "
        "was imported, not compiled",
    )
    command.add_argument(
        "--time",
        type=int,
        metavar="N",
        help="run N times more on a Vulkan device and print its own time of each dispatch",
    )
    command.add_argument(
        "--statistics",
        action="store_true",
        help="print what a Vulkan driver says of each kernel's code: registers, spills, memory",
    )
    command.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="how long a Vulkan device may take for one run (%(default)g)",
    )
    command.add_argument(
        "--in-process",
        action="store_true",
        help="use a Vulkan driver in this process, which a bad kernel may crash",
    )
    command.add_argument(
        "--compare-layers",
        action="store_true",
        help="run every dispatch on what the reference has for its inputs, and stop at the first "
        "that differs: its node, dispatch and kernel",
    )
    command.add_argument("--function", help="of a program of several: which one to run")
    command.add_argument(
        "--load-state", metavar="FILE", help="begin with the states that --save-state wrote"
    )
    command.add_argument(
        "--save-state", metavar="FILE", help="write the program's states after the run"
    )
    command.add_argument(
        "--check",
        action="store_true",
        help="compare with the linalg reference; exit 1 beyond the error bound",
    )
    command.add_argument(
        "--sanitize",
        metavar="NAMES",
        help="look for undefined behaviour, as `interpret --check`: all, races, bounds, ...",
    )
    _inputs(command)


def _generate(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL.gguf", nargs="?", help="a language model")
    command.add_argument("--prompt", metavar="TEXT", help="what to say; - for standard input")
    command.add_argument("--system", metavar="TEXT", help="how to behave, where the model knows it")
    command.add_argument(
        "--raw", action="store_true", help="continue the prompt as it is, without chat template"
    )
    command.add_argument(
        "--device", metavar="NAME", help="interpreter, vulkan or vulkan:N (the best there is)"
    )
    command.add_argument("--target", help="what to compile for (the device)")
    command.add_argument(
        "--context", type=int, metavar="N", help="tokens of prompt and answer (2048, or fewer)"
    )
    command.add_argument("--max-tokens", type=int, metavar="N", help="end the answer there")
    command.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="(%(default)g: the likeliest)"
    )
    command.add_argument("--top-k", type=int, metavar="N", help="sample of the N likeliest")
    command.add_argument(
        "--top-p", type=float, metavar="P", help="sample of the likeliest that together have P"
    )
    command.add_argument("--seed", type=int, metavar="N", help="sample the same again")
    _jobs(command)
    command.add_argument(
        "--no-cache", action="store_true", help="compile anew, and do not keep the program"
    )
    command.add_argument(
        "--empty-cache", action="store_true", help="remove all programs that were kept"
    )


def _devices(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", metavar="NAME", help="only vulkan:N, or vulkan for the best")
    command.add_argument("--json", action="store_true", help="print everything as JSON")
    command.add_argument(
        "--write-target", metavar="FILE", help="write a target file of the device (the best one)"
    )
    command.add_argument(
        "--compute-units",
        type=int,
        metavar="N",
        help="workgroups that run at once, where the device does not say",
    )


def _tune(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT.mlir", nargs="?", help="linalg on tensors")
    command.add_argument(
        "--contraction", metavar="MxNxK:T->R", help="a matmul instead: 1024x1024x512:f16->f32"
    )
    command.add_argument("--target", required=True, help="a device's name, or a target file")
    command.add_argument("--device", metavar="NAME", help="vulkan or vulkan:N (the best)")
    command.add_argument(
        "--candidates", type=int, default=64, metavar="N", help="at most (%(default)s)"
    )
    command.add_argument(
        "--runs", type=int, default=20, metavar="N", help="timed for each (%(default)s)"
    )
    command.add_argument(
        "--timeout",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="for each run of a candidate (%(default)g)",
    )
    command.add_argument(
        "--seconds", type=float, metavar="N", help="at most for each contraction (no limit)"
    )
    command.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes that compile candidates (%(default)s: this one)",
    )
    command.add_argument(
        "--no-prune",
        action="store_true",
        help="also time what the driver says spills registers or fills a compute unit's memory",
    )
    command.add_argument(
        "--results",
        metavar="FILE.jsonl",
        help="a line for each candidate; what is there is not run again (TARGET.jsonl)",
    )
    command.add_argument(
        "-o", "--output", metavar="FILE.json", help="the table (where assign-schedule reads it)"
    )


def _translate(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT", help="an MLIR file, or a SPIR-V binary")
    command.add_argument(
        "-o",
        "--output",
        required=True,
        help="a binary; from a binary MLIR text, unless its name ends in .spv",
    )
    command.add_argument("-p", "--passes", default="", help="run a pass pipeline first")
    command.add_argument("--module", help="the spirv.module's symbol if there are several")
    command.add_argument("--names", action="store_true", help="keep names (OpName)")
    command.add_argument("--lines", action="store_true", help="keep source positions (OpLine)")
    command.add_argument(
        "--unchecked",
        action="store_true",
        help="read a binary that breaks the dialect's rules (without passes)",
    )


def _test(command: argparse.ArgumentParser) -> None:
    from xdsl_spirv.tools.kernel_test.options import add_options

    add_options(command)


def _interpret(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT", help="an MLIR file, or a SPIR-V binary")
    command.add_argument(
        "--function", help="host function (main, or the only one), or entry point of a binary"
    )
    command.add_argument("-p", "--passes", default="", help="run a pass pipeline first")
    _dims(command)
    command.add_argument(
        "--subgroup-size",
        type=int,
        help="invocations of a subgroup (that of the target the module is scheduled for, or 32)",
    )
    command.add_argument(
        "--grid",
        default="1x1x1",
        help="workgroups, where an entry point is run; 4 is 4x1x1 (%(default)s)",
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
    command.add_argument("--entry", dest="function", help="the same as --function")
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
    _debugging(command)
    _inputs(command)


def _debugging(command: argparse.ArgumentParser) -> None:
    """The options of checks and debugging."""
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
        help="the check `permute` beside those of --check: run in several orders of invocations",
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


def _check_passes(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT.mlir")
    command.add_argument("-p", "--passes", required=True, help="the pass pipeline")
    command.add_argument("--inputs", type=int, default=10, help="sets of inputs (%(default)s)")
    command.add_argument("--seed", type=int, default=0, help="of the random ones (%(default)s)")
    command.add_argument("--function", help="host function (main, or the only one)")
    command.add_argument(
        "--subgroup-size", type=int, help="invocations of a subgroup (the target's, or 32)"
    )
    command.add_argument(
        "--grid", default="1x1x1", help="workgroups where there is no host function (%(default)s)"
    )
    command.add_argument(
        "--length", type=int, default=64, help="elements of runtime arrays (%(default)s)"
    )
    command.add_argument("-o", "--output", metavar="out.npz", help="the smallest inputs found")


def _validate(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "input", metavar="INPUT.spv|.mlir", help="- for a binary on standard input"
    )
    command.add_argument(
        "--target-env",
        help="spv1.0 to spv1.6, vulkan1.0 to vulkan1.4 (by the module's capabilities)",
    )
    command.add_argument(
        "--target", help="a device's name, or a target file, whose Workgroup memory must suffice"
    )
    command.add_argument("--module", help="the spirv.module's symbol if there are several")
    command.add_argument("--json", action="store_true", help="print the findings as JSON")
    command.add_argument(
        "--spirv-val", action="store_true", help="run Khronos' validator too and show differences"
    )


def _disassemble(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT.spv", help="a SPIR-V binary, - for standard input")
    command.add_argument("-o", "--output", default="-", metavar="OUTPUT.spvasm")
    command.add_argument("--raw-id", action="store_true", help="print ids by their numbers")
    command.add_argument("--no-header", action="store_true", help="leave the header comments out")
    command.add_argument("--no-indent", action="store_true", help="do not align the instructions")
    command.add_argument("--offsets", action="store_true", help="show where instructions start")
    command.add_argument(
        "--tolerant",
        action="store_true",
        help="print what contradicts the grammar as words instead of stopping",
    )


def _assemble(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="INPUT.spvasm", help="assembly, - for standard input")
    command.add_argument("-o", "--output", required=True, metavar="OUTPUT.spv")
    command.add_argument(
        "--version-of-spirv", metavar="1.6", help="instead of the one in the header comments"
    )
    command.add_argument(
        "--renumber", action="store_true", help="number all ids anew, as spirv-as does by default"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    if arguments is None:
        # The process ends with the command: what is left then needs no last look for garbage.
        atexit.register(gc.freeze)
        end_by_exception()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names and source lines may have letters that a terminal has not.
        sys.stdout.reconfigure(errors="backslashreplace")
    top = parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["opt"]:
        # What follows is not ours to understand, but for this.
        debug = ["--debug"] if "--debug" in given else []
        given = ["opt", *debug, "--", *(text for text in given[1:] if text != "--debug")]
    parsed = top.parse_args(given)
    if parsed.version:
        from importlib.metadata import version

        from xdsl_spirv import __version__

        print(f"xdsl-spirv {__version__} (xdsl {version('xdsl')})")
        return 0
    if not hasattr(parsed, "command"):
        top.print_help(sys.stderr)
        return 2
    return guarded(lambda: parsed.command(parsed), parsed.debug)


if __name__ == "__main__":
    sys.exit(main())
