"""
Reads files of a program's folder, and never files outside of it.

The manifest that names the files may come from an untrusted source. A name must therefore refer to
a regular file inside the folder, without links. A file that is too large is refused before it is
read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError

REMEDY = "give a directory that `xdsl-spirv compile` wrote"

MANIFEST_BYTES = 64 << 20
"""Size limit for `program.json` and `layers.json`. A language model needs about 1 MB."""
KERNEL_BYTES = 16 << 20
"""Size limit for a kernel. A large kernel has 100 kB."""
SOURCE_BYTES = 256 << 20
"""Size limit for `source.mlir`, which does not contain weights."""
WEIGHTS_HEADER_BYTES = 100 << 20
"""Size limit for a safetensors file's header, equal to the format's own limit."""


class Folder:
    """Reads and writes the files of a program's folder."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)

    def has(self, name: str) -> bool:
        """True if the folder contains an entry of that name."""
        return os.path.lexists(self.path / name)

    def read(self, name: str, most: int) -> bytes:
        """
        Returns the contents of a file. Raises `ProgramError` if it is missing, not a regular file,
        a link, or larger than `most` bytes.
        """
        try:
            return self._read(name, most)
        except OSError as error:
            raise ProgramError(
                f"the program cannot be read: {error.strerror}", str(self.path / name), REMEDY
            ) from error

    def _read(self, name: str, most: int) -> bytes:
        path = self.path
        for part in name.split("/"):
            path /= part
            if stat.S_ISLNK(os.lstat(path).st_mode):
                raise ProgramError("the program's folder contains a link", str(path), REMEDY)
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise ProgramError(
                "the program's folder contains something other than a file", str(path), REMEDY
            )
        # The file may have been replaced by a link or a pipe, which is not opened.
        flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with open(os.open(path, os.O_RDONLY | flags | getattr(os, "O_BINARY", 0)), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(most + 1) if size <= most else b""
        if size > most or len(data) > most:
            raise ProgramError(
                f"the program's {name} has {size:,} bytes, more than {most:,}", str(path), REMEDY
            )
        return data
