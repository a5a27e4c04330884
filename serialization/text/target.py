"""
Defines the target `spirv-assembly`, which prints a program's only `spirv.module` as assembly.

It disassembles the output of `spirv-binary`, so the text shows exactly the binary that a driver
gets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.serialization.raw.binary import decode
from xdsl_spirv.serialization.text.disassembler import disassemble


@dataclass(frozen=True)
class SPIRVAssembly(Target):
    """
    Prints a `spirv.module` as SPIR-V assembly.

    With `raw_ids`, ids are printed as numbers. `module` is the symbol of the module if there are
    several. If `names` is set, the text contains OpName. If `lines` is set, it contains OpLine.
    """

    name = "spirv-assembly"

    raw_ids: bool = False
    module: str | None = None
    names: bool = False
    lines: bool = False

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        binary = encode(find_module(module, self.module), names=self.names, lines=self.lines)
        output.write(disassemble(decode(binary), raw_ids=self.raw_ids))
