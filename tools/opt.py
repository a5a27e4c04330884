"""Implements `xdsl-spirv opt`: xDSL's `xdsl-opt`, extended to read SPIR-V binaries and assembly."""

from __future__ import annotations

import argparse
import io
import sys
from typing import IO

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.arg_spec import parse_spec
from xdsl.xdsl_opt_main import xDSLOptMain

from xdsl_spirv.compiler.compiler import converting_pass_errors
from xdsl_spirv.compiler.pipeline import expand_pipelines
from xdsl_spirv.progress import Stage, stage
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import ModuleParser, reading, verify, verifying
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.target import SPIRVBinary
from xdsl_spirv.serialization.raw.errors import SPIRVAssemblyError, SPIRVDecodeError
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.speech import did_you_mean
from xdsl_spirv.tools.output import check_place, write
from xdsl_spirv.tools.pass_help import passes_help
from xdsl_spirv.tools.trace import Trace
from xdsl_spirv.tools.tracing import tracing
from xdsl_spirv.upstream.order import verify_order

DESCRIPTION = """Read MLIR, or SPIR-V as a binary or as assembly, run passes over it, and print it.
This is xDSL's xdsl-opt with more front ends and options."""


class SPIRVOpt(xDSLOptMain):
    """
    `xdsl-opt` with the front ends `spv` and `spvasm`, which are selected by the file's name.

    `--trace-passes DIR` writes the changes of every pass of the pipeline, also of the passes in
    `linalg-to-spirv`.
    """

    version_format = "xdsl-spirv opt, of xdsl version {xdsl_version}"
    trace: Trace | None = None
    progress: Stage | None = None

    def __init__(self, given: list[str]):
        self.given = given
        self.output = _Kept()
        self.binary = b""
        super().__init__(args=given)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.prog, arg_parser.description = "xdsl-spirv opt", DESCRIPTION
        if {"-h", "--help"} & set(self.given):
            arg_parser.formatter_class = argparse.RawDescriptionHelpFormatter
            arg_parser.epilog = passes_help()
            # argparse ignores errors of the output (such as a full disk).
            arg_parser.print_help = lambda file=None: print(arg_parser.format_help(), end="")
        arg_parser.add_argument(
            "--trace-passes",
            metavar="DIR",
            help="write the module after every pass, and a page with the changes of each pass",
        )
        arg_parser.add_argument(
            "--interactive",
            action="store_true",
            help="step through the passes of -p, forward and back, by typed commands",
        )

    def setup_pipeline(self) -> None:
        with converting_pass_errors(self.available_passes):
            super().setup_pipeline()
        before = self.pipeline.callback

        def callback(
            previous: ModulePass | None, module: ModuleOp, following: ModulePass | None
        ) -> None:
            if self.progress is not None and following is not None:
                self.progress.step(following.name)
            if self.trace is not None:
                self.trace.observe(previous.name if previous is not None else "", module)
            if before is not None:
                with verifying():
                    before(previous, module, following)

        passes = self.pipeline.passes
        shown = passes if self.args.trace_passes is None else expand_pipelines(passes)
        self.pipeline = PassPipeline(tuple(shown), callback)

    def step_through(self) -> int:
        """Runs the interactive session. Returns 1 if a command of a script failed."""
        from xdsl_spirv.tools.stepping import Session
        from xdsl_spirv.tools.stepping_runs import Runs
        from xdsl_spirv.tools.stepping_terminal import Terminal

        if not self.args.input_file or self.args.input_file == "-":
            raise ProgramError(
                "standard input cannot contain both the module and the commands",
                "--interactive",
                "name a file",
            )
        ((stream, _),), extension = self.prepare_input()
        with stream:
            module = self.parse_chunk(stream, extension)
        assert module is not None
        if not self.args.disable_verify:
            verify(module)
        session = Session(module, self.ctx, self.available_passes)
        session.verifies = not self.args.disable_verify
        session.plan = expand_pipelines(self.pipeline.passes)
        terminal = Terminal(session, Runs(session), self.args.input_file)
        terminal.cmdloop()
        return int(terminal.failed and not terminal.is_typed)

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        try:
            return super().prepare_input()
        except ValueError as error:
            # The file's name does not show its format.
            remedy = f"choose the format with --frontend: {', '.join(self.available_frontends)}"
            raise ProgramError(str(error), self._name(), remedy) from None

    def prepare_output(self) -> IO[str]:
        # Kept until the output is complete: the file appears whole or not at all.
        return sys.stdout if self.args.output_file is None else self.output

    def output_resulting_program(self, prog: ModuleOp) -> str:
        target = self.args.target.partition("{")[0]
        if target not in self.available_targets:
            known = ", ".join(self.available_targets)
            remedy = did_you_mean(target, self.available_targets, f"use one of {known}")
            raise ProgramError(f"the output format {target!r} does not exist", "--target", remedy)
        if target == SPIRVBinary.name and self.args.output_file is not None:
            # xDSL can only write text.
            binary = SPIRVBinary.from_spec(parse_spec(self.args.target))
            if binary.file is not None:
                raise ProgramError(
                    "the binary has two outputs", "-o, file=", "leave out -o or file="
                )
            self.binary += binary.encode(prog)
            return ""
        return super().output_resulting_program(prog)

    def register_all_frontends(self) -> None:
        super().register_all_frontends()
        self.available_frontends["mlir"] = self._text
        self.available_frontends["spv"] = self._binary
        self.available_frontends["spvasm"] = self._assembly

    def _text(self, source: IO[bytes]) -> ModuleOp:
        try:
            text = source.read().decode()
        except UnicodeDecodeError as error:
            raise ProgramError("the input is not text", self._name(), "give MLIR") from error
        parser = ModuleParser(self.ctx, text, self.get_input_name())
        with reading(parser):
            module = parser.parse_module(not self.args.no_implicit_module)
        if not self.args.disable_verify:
            verify_order(module)
        return module

    def _binary(self, source: IO[bytes]) -> ModuleOp:
        return self._decoded(source.read())

    def _assembly(self, source: IO[bytes]) -> ModuleOp:
        text = source.read().decode("utf-8", "surrogateescape")
        try:
            return self._decoded(assemble(text).encode())
        except SPIRVAssemblyError as error:
            place = f"{self._name()}:{error.line}:{error.column}"
            raise ProgramError(error.cause, place, "correct the text") from error

    def _decoded(self, data: bytes) -> ModuleOp:
        try:
            return ModuleOp([decode(data)])
        except SPIRVDecodeError as error:
            remedy = "`xdsl-spirv validate` lists the errors"
            raise ProgramError(str(error), self._name(), remedy) from error

    def _name(self) -> str:
        return self.args.input_file or "standard input"


class _Kept(io.StringIO):
    """A text stream that remains readable after it is closed."""

    def close(self) -> None:
        pass


def _refuse_output(arguments: argparse.Namespace) -> None:
    """Raises `ProgramError` for output options, which an interactive session does not support."""
    given = {"-o": arguments.output_file, "--trace-passes": arguments.trace_passes}
    given["--split-input-file"] = arguments.split_input_file
    for option, value in given.items():
        if value:
            raise ProgramError(
                f"--interactive cannot be combined with {option}",
                f"--interactive, {option}",
                f"leave out {option}, and write files with commands of the session",
            )


def opt(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv opt`."""
    given: list[str] = arguments.arguments
    driver = SPIRVOpt(given[1:] if given[:1] == ["--"] else given)
    if driver.args.interactive:
        _refuse_output(driver.args)
        return driver.step_through()
    check_place(driver.args.output_file)
    name = driver.args.input_file or "standard input"
    count = len(driver.pipeline.passes)
    with (
        tracing(driver.args.trace_passes, name) as driver.trace,
        stage("running passes", count) as driver.progress,
    ):
        driver.run()
    if driver.args.output_file is not None:
        write(driver.args.output_file, driver.binary or driver.output.getvalue().encode())
    return 0
