"""
A file appears whole or not at all.
"""

from __future__ import annotations

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.files import write_atomically


def write(path: str, data: bytes) -> None:
    """Write a file; raises `ProgramError` with the system's reason."""
    try:
        write_atomically(path, data)
    except OSError as error:
        raise ProgramError(
            f"cannot write the output: {error.strerror}", path, "name another file"
        ) from error
