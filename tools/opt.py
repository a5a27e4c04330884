"""
`xdsl-spirv opt`: xDSL's `xdsl-opt` that also reads SPIR-V, as binaries and as assembly.

xDSL's universe has dialects, passes and targets of packages, but no front ends: what stock
`xdsl-opt` cannot be taught is taught here. All of its options are there.
"""

from __future__ import annotations

import argparse
from typing import IO

from xdsl.dialects.builtin import ModuleOp
from xdsl.xdsl_opt_main import xDSLOptMain

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.assembler import assemble
from xdsl_spirv.serialization.decoder import decode
from xdsl_spirv.serialization.raw_errors import SPIRVAssemblyError, SPIRVDecodeError


class SPIRVOpt(xDSLOptMain):
    """`xdsl-opt` with the front ends `spv` and `spvasm`, which the file's name chooses."""

    def register_all_frontends(self) -> None:
        super().register_all_frontends()
        self.available_frontends["spv"] = self._binary
        self.available_frontends["spvasm"] = self._assembly

    def _binary(self, source: IO[bytes]) -> ModuleOp:
        return self._decoded(source.read())

    def _assembly(self, source: IO[bytes]) -> ModuleOp:
        text = source.read().decode("utf-8", "surrogateescape")
        try:
            return self._decoded(assemble(text).encode())
        except SPIRVAssemblyError as error:
            place = f"{self._name()}:{error.line}:{error.column}"
            raise ProgramError(error.cause, place, "correct the text there") from error

    def _decoded(self, data: bytes) -> ModuleOp:
        try:
            return ModuleOp([decode(data)])
        except SPIRVDecodeError as error:
            remedy = "see what is wrong with xdsl-spirv validate"
            raise ProgramError(str(error), self._name(), remedy) from error

    def _name(self) -> str:
        return self.args.input_file or "standard input"


def opt(arguments: argparse.Namespace) -> int:
    """`xdsl-spirv opt`."""
    given: list[str] = arguments.arguments
    SPIRVOpt(args=given[1:] if given[:1] == ["--"] else given).run()
    return 0
