"""Replaces folders that this package wrote, and no other folders."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.files import beside, put_in_place


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that is written as a whole."""

    name: str
    """The name of the kind in errors, for example `program`."""
    marker: str
    """The name of the file that each folder of this kind contains."""

    def check_place(self, folder: str | os.PathLike[str]) -> None:
        """
        Raises `ProgramError` if `folder` cannot be written or must not be replaced. Called before
        the work whose results it will contain.
        """
        target = Path(os.path.abspath(folder))
        self.refuse_other_contents(target)
        parent = next(parent for parent in target.parents if os.path.lexists(parent))
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            code = errno.EACCES if parent.is_dir() else errno.ENOTDIR
            raise self._fail_to_write(OSError(code, os.strerror(code)), folder)

    def refuse_other_contents(self, target: Path) -> None:
        """Raises `ProgramError` unless `target` is missing, empty, or a folder of this kind."""
        try:
            # Another process may replace the target at any time, so its status is read once.
            if stat.S_ISDIR(os.lstat(target).st_mode):
                if (target / self.marker).is_file() or not any(target.iterdir()):
                    return
                cause = f"the output directory contains something other than a {self.name}"
            else:
                cause = "the output directory is not a directory"
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._fail_to_write(error, target) from error
        raise ProgramError(cause, str(target), "give another path, or remove what is there")

    @contextmanager
    def replacing(self, folder: str | os.PathLike[str]) -> Generator[Path]:
        """
        Yields an empty folder, which replaces `folder` at the end.

        Raises `ProgramError` if `folder` contains something else or cannot be written. The old
        contents then remain. If the process is killed, `folder` has either the old or the new
        contents.
        """
        target = Path(os.path.abspath(folder))
        self.refuse_other_contents(target)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with beside(target) as scratch:
                yield scratch
                put_in_place(scratch, target)
        except OSError as error:
            # The system's error names a temporary file, which the user does not know.
            raise self._fail_to_write(error, folder) from error

    def _fail_to_write(self, error: OSError, folder: str | os.PathLike[str]) -> ProgramError:
        cause = f"cannot write the {self.name}: {error.strerror}"
        return ProgramError(cause, str(folder), "give another path")
