"""
Reads SPIR-V binaries where a command takes a module: they are recognised by their magic number, not
by name.
"""

from __future__ import annotations

import io
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.runtime.errors import ProgramError


def is_binary(path: str) -> bool:
    """True if a file begins with SPIR-V's magic number, in either byte order."""
    from xdsl_spirv.grammar import grammar

    try:
        with Path(path).open("rb") as file:
            head = file.read(4)
    except OSError:
        return False
    magic = grammar().magic
    return head in (magic.to_bytes(4, "little"), magic.to_bytes(4, "big"))


def read_binary(path: str, *, unchecked: bool = False) -> ModuleOp:
    """
    Reads a binary as a program that contains only its `spirv.module`; `unchecked` as in `decode`.

    Raises `SPIRVDecodeError`, or `ProgramError` if the file cannot be read.
    """
    from xdsl_spirv.serialization.decode.decoder import decode

    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ProgramError(
            f"cannot read the input: {error.strerror}", path, "give a SPIR-V binary"
        ) from error
    return ModuleOp([decode(data, unchecked=unchecked)])


def mlir_text(module: ModuleOp, *, lines: bool = False) -> str:
    """Returns the text of a module; with `lines` it has source positions."""
    from xdsl.printer import Printer

    output = io.StringIO()
    printer = Printer(output, print_debuginfo=lines)
    printer.print_op(module)
    return output.getvalue() + "\n"
