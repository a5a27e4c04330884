"""The options of `xdsl-spirv test`."""

from __future__ import annotations

import argparse

from xdsl_spirv.tools.program_options import as_json

EPILOG = """Exit status: 0 if every launch did what it should, 1 if one did not, 2 if a test is
described wrongly or there is nothing to run. docs/kernel-tests.md has the file's format."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Declares the options."""
    command.epilog = EPILOG
    command.add_argument(
        "kernels",
        metavar="KERNEL",
        nargs="+",
        help="GLSL (.comp), .slang, .hlsl, .wgsl, .spv, .spvasm, .mlir or .ttir (its launch is "
        "described in x.kernel.toml beside it, or by options), .kernel.toml, or a folder of those",
    )
    command.add_argument("--init", action="store_true", help="write x.kernel.toml to start from")
    launch_options(command)
    _reports(command)


def launch_options(command: argparse.ArgumentParser) -> None:
    """Declares the options that describe a launch."""
    _launch(command)
    _arguments(command)


def _launch(command: argparse.ArgumentParser) -> None:
    command.add_argument("--entry", metavar="NAME", help="the entry point, if there are several")
    command.add_argument("--grid", metavar="X[,Y[,Z]]", help="workgroups; 2 is 2,1,1")
    command.add_argument(
        "--subgroup-size", metavar="N[,N]", help="run once for each (the target's, or 32)"
    )
    command.add_argument("--target", metavar="NAME", help="the device whose limits must hold")
    command.add_argument(
        "--check", metavar="NAMES", help="all (if nothing else is said), none, or races,bounds,..."
    )
    command.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="RULE[:TEXT]",
        help="findings that are intended (repeat)",
    )
    command.add_argument(
        "--robust", action="store_true", help="with robustBufferAccess2: outside buffers is 0"
    )
    command.add_argument(
        "--max-steps", type=int, metavar="N", help="stop after so many executed blocks"
    )
    command.add_argument("--timeout", type=float, metavar="SECONDS", help="for each launch (300)")
    command.add_argument(
        "--target-env", metavar="ENV", help="vulkan1.0 to vulkan1.4: compiled and validated for"
    )
    command.add_argument(
        "-D",
        "--define",
        dest="defines",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="a macro of the source (repeat)",
    )
    command.add_argument(
        "--glslang",
        action="append",
        default=[],
        metavar="OPTION",
        help="for glslang, or the source's other compiler (repeat)",
    )
    command.add_argument("--optimize", action="store_true", help="run spirv-opt -O before")


def _arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--spec",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a specialization constant, by name or SpecId (repeat)",
    )
    command.add_argument(
        "--push",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a member of the push constants (repeat)",
    )
    command.add_argument(
        "--buffer",
        dest="buffers",
        action="append",
        default=[],
        metavar="NAME=TYPE:SIZE:CONTENT[:SEED]",
        help="f32:1000:random, u32:4x4:zeros, or x.npy; NAME is the block's, the variable's, or "
        "SET.BINDING (repeat)",
    )
    command.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="NAME=EXPRESSION|x.npy",
        help="what a buffer holds afterwards: numpy over first contents and constants (repeat)",
    )
    command.add_argument(
        "--tolerance", metavar="T", help="1e-5, or absolute=1e-6,relative=1e-5,ulp=2"
    )


def _reports(command: argparse.ArgumentParser) -> None:
    command.add_argument("-q", "--quiet", action="store_true", help="show failures only")
    as_json(
        command,
        "summary, launches (test, kernel, subgroup_size, passed, seconds, compared, problems, "
        "expected, not_run, notes)",
    )
    command.add_argument("-o", "--output", metavar="FILE.json", help="write that object there")
    command.add_argument("--junit", metavar="FILE", help="for a CI system's list of tests")
    command.add_argument("--sarif", metavar="FILE", help="for a code review (SARIF 2.1.0)")
