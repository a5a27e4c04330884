"""
A file appears whole or not at all; `-` is standard output.
"""

from __future__ import annotations

import sys

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.files import write_atomically
from xdsl_spirv.tools.failing import of_the_system

STANDARD = "-"
"""The file name that stands for standard output."""


class OutputError(ProgramError):
    """An output cannot be written."""


def write(path: str, data: bytes) -> None:
    """Write a file; raises `OutputError` with the system's reason."""
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
