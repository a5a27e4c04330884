"""Reads a SPIR-V binary wherever a command accepts a module."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.runtime.errors import ProgramError


def is_binary(path: str) -> bool:
    """True if a file begins with the SPIR-V magic number, in either byte order."""
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
    Reads a SPIR-V binary as a module that contains only a `spirv.module`.

    `unchecked` is passed to `decode`. Raises `SPIRVDecodeError` for an invalid binary, and
    `ProgramError` if the file cannot be read.
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
    """Returns the MLIR text of a module, with source positions if `lines` is true."""
    from xdsl.printer import Printer

    output = io.StringIO()
    printer = Printer(output, print_debuginfo=lines)
    printer.print_op(module)
    return output.getvalue() + "\n"


def read_input(path: str) -> bytes:
    """Reads a file, or standard input for "-". Raises `ProgramError` if it cannot be read."""
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        cause = f"cannot read the input: {error.strerror}"
        raise ProgramError(cause, path, "correct the file name") from error
