"""Writes files atomically; `-` is standard output."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import BinaryIO

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.files import write_atomically
from xdsl_spirv.tools import of_the_system

STANDARD = "-"
"""File name for standard output."""


class OutputError(ProgramError):
    """Raised if an output file cannot be written."""


def write(path: str, data: bytes) -> None:
    """Writes a file atomically. Raises `OutputError` with the system's reason."""
    try:
        if path == STANDARD:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        write_atomically(path, data)
    except OSError as error:
        remedy = of_the_system(error)[1]
        raise OutputError(f"cannot write the output: {error.strerror}", path, remedy) from error


def check_place(path: str | None) -> None:
    """Raises `OutputError` early if a path cannot be written. A full disk is not detected."""
    if path is None or path == STANDARD:
        return
    target = Path(os.path.realpath(path))
    is_device = target.exists() and not target.is_file()
    code = 0
    if target.is_dir():
        code = errno.EISDIR
    elif not target.parent.is_dir():
        code = errno.ENOTDIR if target.parent.exists() else errno.ENOENT
    elif not os.access(target if is_device else target.parent, os.W_OK):
        code = errno.EACCES
    if code:
        error = OSError(code, os.strerror(code), path)
        remedy = of_the_system(error)[1]
        raise OutputError(f"cannot write the output: {error.strerror}", path, remedy) from error


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Returns standard input and output for a protocol. Printed text goes to standard error."""
    streams = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return streams
