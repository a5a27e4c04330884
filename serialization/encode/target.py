"""
The target `spirv-binary`: the one `spirv.module` of a program, as bytes.

xDSL hands a target a text stream, which cannot carry bytes: they go to the file named by the
option `file`, or to standard output. A file appears whole or not at all.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.target import Target

from xdsl_spirv.dialects.spirv.module import ModuleOp as SPIRVModuleOp
from xdsl_spirv.dialects.spirv.module import modules_in, symbol_of
from xdsl_spirv.serialization.encode import SPIRVEncodeError
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.files import write_atomically


@dataclass(frozen=True)
class SPIRVBinary(Target):
    """
    Writes a `spirv.module` as a SPIR-V binary.

    `file` is the file to write (standard output by default), `module` the symbol of the module if
    there are several, `names` keeps names, `lines` keeps source positions.
    """

    name = "spirv-binary"

    file: str | None = None
    module: str | None = None
    names: bool = False
    lines: bool = False

    def encode(self, module: ModuleOp) -> bytes:
        """The module's words. Raises `SPIRVEncodeError`."""
        chosen = find_module(module, self.module)
        return encode(chosen, names=self.names, lines=self.lines)

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        binary = self.encode(module)
        if self.file is not None:
            try:
                write_atomically(self.file, binary)
            except OSError as error:
                raise SPIRVEncodeError(f"cannot write {self.file}: {error.strerror}") from error
            return
        sys.stdout.flush()
        sys.stdout.buffer.write(binary)
        sys.stdout.buffer.flush()


def find_module(root: Operation, name: str | None = None) -> SPIRVModuleOp:
    """
    The `spirv.module` of a program: the one named, or else the only one.

    Raises `SPIRVEncodeError` if there is none, or several without a name to choose by.
    """
    candidates = list(modules_in(root))
    if name is not None:
        candidates = [m for m in candidates if symbol_of(m) == name]
        if not candidates:
            raise SPIRVEncodeError(f"there is no spirv.module @{name} in the program")
    if not candidates:
        raise SPIRVEncodeError(
            "there is no spirv.module in the program; lower it first, "
            "for instance with the pass linalg-to-spirv"
        )
    if len(candidates) > 1:
        names = ", ".join(
            f"@{n}" if n else "one without a name" for n in map(symbol_of, candidates)
        )
        raise SPIRVEncodeError(
            f"there are {len(candidates)} spirv.module in the program ({names}); "
            "choose one with the option module=NAME"
        )
    return candidates[0]
