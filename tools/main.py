"""
Implements the command `xdsl-spirv`: parses its arguments and runs a subcommand.

A subcommand's module is imported only if it is selected, so that `--help` and errors are fast. A
failure prints one message and sets an exit status (`failing.py`); `--debug` prints the traceback.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from xdsl_spirv.progress import Display, shown_on
from xdsl_spirv.speech import as_command, did_you_mean
from xdsl_spirv.tools.failing import end_by_exception, guarded, open_streams
from xdsl_spirv.upstream.collection import lasting

OTHERWISE = {"--inputs": "--list", "--outputs": "--list", "--output-file": "--output"}
"""Maps option names of other tools to the names in this package."""

SOURCES = (".comp", ".glsl", ".slang", ".hlsl", ".wgsl")

COMPLETION = "_ARGCOMPLETE"
"""Environment variable by which a shell requests completions."""

DESCRIPTION = "SPIR-V for machine learning: compile, run, check and translate kernels."

FIRST_STEPS = """\
first steps:
  xdsl-spirv test kernel.comp --init    describe the launch of a kernel, to test it
  xdsl-spirv run model.onnx             run a model, and compare it with onnxruntime
  xdsl-spirv explain model.onnx         show how its layers are compiled
  xdsl-spirv COMMAND --help             the options of a command, with examples"""


TABLE = """
compile options:compile compile:compile
    Compile a model, or linalg on tensors, into a program for a device.
run options:run run:run
    Run a compiled program, or compile, run and compare a model.
generate options:generate generate:generate
    Answer a prompt with a language model.
serve options:serve serve:serve
    Serve a language model with OpenAI's API.
explain options:explain explain:explain
    Show how a model is compiled for a device, and why.
convert options:convert convert:convert
    Convert an ONNX model to f16 or int8, and measure how its results change.
devices options:devices devices:devices
    List the Vulkan devices, or write a target file for a device.
doctor options:doctor doctor:doctor
    Check if programs run on this machine's Vulkan devices, and explain failures.
tune tuning.options:tune tune:tune
    Search for the fastest schedules of contractions on a Vulkan device.
worker jobs:worker_options jobs:worker
    Offer this machine's cores and devices to a Dask scheduler.
results jobs:results_options jobs:results
    Show the results in a store (tune --store), or merge stores.
translate module_options:translate commands:translate
    Translate MLIR to a SPIR-V binary, or a binary to MLIR.
interpret module_options:interpret commands:interpret
    Run a module or a kernel on the interpreter, at any stage of its lowering.
test kernel_test.options:add_options kernel_test.command:test
    Test kernels without a GPU: races, bounds, results.
reduce reduce.command:add_options reduce.command:reduce
    Find the smallest kernel, launch or model that still fails.
debug debugger.command:add_options debugger.command:debug
    Step through a kernel in an editor (Debug Adapter Protocol).
language-server language.server:add_options language.server:serve
    Show findings in an editor when a kernel is saved (Language Server Protocol).
prove module_options:prove solvers:prove
    Prove that a kernel has no fault in any launch, or find a launch with a fault.
check-passes module_options:check_passes check_passes:check
    Compare a module's results before and after each pass, and find the first difference.
validate module_options:validate validate:validate
    Check a SPIR-V binary against all rules.
disassemble module_options:disassemble text:disassemble
    Print a SPIR-V binary as assembly.
assemble module_options:assemble text:assemble
    Write SPIR-V assembly as a binary.
completion module_options:completion completion:completion
    Print the code that makes a shell complete this command.
opt module_options:opt opt:opt
    Run passes over MLIR or SPIR-V like xdsl-opt, or step through the passes.
"""
"""
Lists the commands: name, function that declares the options, function that runs the command, and
description. The functions are in `tools/`.
"""

COMMANDS = {
    name: (help.strip(), options, function)
    for row in re.split(r"\n(?=\S)", TABLE.strip())
    for facts, help in [row.split("\n")]
    for name, options, function in [facts.split()]
}
"""Maps a command to its description, its declaring function, and its running function."""


def _import_function(place: str) -> Callable[..., Any]:
    """Imports a function, given as `module:function`, from `tools/`."""
    module, _, name = place.partition(":")
    path = f"xdsl_spirv.tools.{module}"
    if path not in sys.modules:
        with lasting():
            import_module(path)
    return getattr(sys.modules[path], name)


def _values(choices: Any) -> list[Any]:
    return list(choices.values()) if isinstance(choices, dict) else list(choices or ())


class _Command(argparse.ArgumentParser):
    """A command whose options are declared only if the command is selected."""

    options = ""
    given: Sequence[str] = ()

    @property
    def commands(self) -> list[_Command]:
        words = [word for action in self._actions for word in _values(action.choices)]
        return [word for word in words if isinstance(word, _Command)]

    def declare(self) -> None:
        """Declares the options of the command, at the first call only."""
        place, self.options = self.options, ""
        if place:
            _import_function(place)(self)
            if {"-h", "--help"} & set(self.given):
                self.epilog = _import_function("examples:epilog")(
                    self.prog.split()[-1], self.epilog
                )
            if COMPLETION in os.environ:
                _import_function("completion:name_values")(self)

    def parse_known_args(self, *given: Any, **named: Any) -> Any:
        self.given = list(given[0] if given and given[0] is not None else sys.argv[1:])
        self.declare()
        parsed, unknown = super().parse_known_args(*given, **named)
        if unknown:
            # The parent command could not suggest options of this command.
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def print_help(self, file: Any = None) -> None:
        """Prints help. Unlike argparse, raises errors of the output (such as a full disk)."""
        (file or sys.stdout).write(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Prints argparse's message, and suggests similar options, choices and commands."""
        chosen = re.match(r".*invalid choice: '([^']*)'", message)
        options = [name for name in self._option_string_actions if name.startswith("--")]
        words = [str(word) for action in self._actions for word in action.choices or ()]
        unknown = [
            option
            for option in (word.partition("=")[0] for word in self.given if word.startswith("--"))
            if not any(name.startswith(option) for name in options)
        ]
        remedy = did_you_mean(chosen[1], words) if chosen else ""
        if unknown and not chosen:
            meant = OTHERWISE.get(unknown[0])
            remedy = did_you_mean(meant if meant in options else unknown[0], options)
            remedy = f"{unknown[0]} is not an option{remedy and f': {remedy}'}"
        if chosen and remedy:
            message = message.partition(" (choose from")[0]
        said = f"{message}; {remedy}" if remedy else message
        self.exit(2, f"{self.prog}: error: {said}\n`{self.prog} --help` lists all options\n")


def parser() -> _Command:
    """Returns the parser of the command line."""
    top = _Command(prog="xdsl-spirv", description=DESCRIPTION, epilog=FIRST_STEPS)
    top.formatter_class = argparse.RawDescriptionHelpFormatter
    top.add_argument("--version", action="store_true", help="print the versions and exit")
    common = _Command(add_help=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    common.add_argument(
        "--progress",
        action="store_true",
        help="print the progress of long stages even if standard error is not a terminal",
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Command)
    for name, (help, options, function) in COMMANDS.items():
        command = commands.add_parser(name, help=help, description=help, parents=[common])
        command.set_defaults(command=function)
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        command.options = options
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line, and returns the exit status."""
    if arguments is None:
        # Skips the garbage collection at the end of the process.
        atexit.register(gc.freeze)
        end_by_exception()
        open_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Imports of modules may be interrupted, too.
    with as_command():
        return guarded(lambda: _run_chosen(given), "--debug" in given)


def _run_chosen(given: list[str]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names and source lines may contain characters outside the terminal's encoding.
        sys.stdout.reconfigure(errors="backslashreplace")
    top = parser()
    if COMPLETION in os.environ:
        # argcomplete reads the options only once, so they are declared first.
        for command in top.commands:
            if command.prog.split()[-1] in os.environ.get("COMP_LINE", "").split():
                command.declare()
        _import_function("completion:answer")(top)
    if given[:1] == ["help"]:
        given = [*given[1:], "--help"]
    if given[:1] == ["opt"]:
        # `opt` parses all other arguments itself.
        ours = [text for text in given if text in ("--debug", "--progress")]
        given = ["opt", *ours, "--", *(text for text in given[1:] if text not in ours)]
    parsed = top.parse_args(given)
    if parsed.version:
        from importlib.metadata import version

        from xdsl_spirv import __version__

        print(f"xdsl-spirv {__version__} (xdsl {version('xdsl')})")
        return 0
    if not hasattr(parsed, "command"):
        top.print_help(sys.stderr)
        return 2
    with shown_on(_display(parsed.progress)):
        return _run(parsed)


def _run(parsed: argparse.Namespace) -> int:
    """Runs a command and returns the exit status. With `--json`, prints only the JSON report."""
    path = str(getattr(parsed, "input", None) or getattr(parsed, "program", None) or "")
    if path.endswith(SOURCES):
        from xdsl_spirv.runtime.errors import ProgramError

        raise ProgramError(
            "only `xdsl-spirv test`, `debug` and `prove` read source files",
            path,
            f"use one of these, or compile it to {path.rpartition('.')[0]}.spv (GLSL: glslang -V)",
        )
    command = _import_function(parsed.command)
    if getattr(parsed, "json", None) is not True:
        return command(parsed)
    return _import_function("report:reported")(lambda: command(parsed))


def _display(wanted: bool) -> Display | None:
    """Returns a display of the progress if `wanted` or on a terminal, else None."""
    if not wanted and not sys.stderr.isatty():
        return None
    from xdsl_spirv.tools.progress import display_on

    return display_on(sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
