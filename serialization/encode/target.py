"""
Defines the target `spirv-binary`, which writes a program's only `spirv.module` as bytes.

xDSL gives a target a text stream, to which bytes cannot be written. The bytes therefore go to the
file that the option `file` names, or to standard output. A file is written atomically.
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

    `file` is the file to write, standard output by default. `module` is the symbol of the module if
    there are several. If `names` is set, the binary contains OpName. If `lines` is set, it contains
    OpLine.
    """

    name = "spirv-binary"

    file: str | None = None
    module: str | None = None
    names: bool = False
    lines: bool = False

    def encode(self, module: ModuleOp) -> bytes:
        """Returns the binary of the module. Raises `SPIRVEncodeError`."""
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
    Returns the `spirv.module` with the symbol `name`, or a program's only `spirv.module`.

    Raises `SPIRVEncodeError` if no module matches, or if there are several and `name` is None.
    """
    modules = list(modules_in(root))
    names = ", ".join(f"@{n}" if n else "one without a name" for n in map(symbol_of, modules))
    candidates = [m for m in modules if name is None or symbol_of(m) == name]
    if modules and not candidates:
        raise SPIRVEncodeError(
            f"there is no spirv.module @{name} in the program; its modules are: {names}"
        )
    if not candidates:
        raise SPIRVEncodeError(
            "there is no spirv.module in the program; lower it first, "
            "for instance with the pass linalg-to-spirv"
        )
    if len(candidates) > 1:
        raise SPIRVEncodeError(
            f"there are {len(candidates)} spirv.module in the program ({names}); "
            "choose one with the option module=NAME"
        )
    return candidates[0]
