"""
Replaces folders that this package wrote, and no other folders. The replacement is atomic: a reader
sees either the old or the new folder, also if an error occurs.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError

NEW, OLD = "new", "old"
"""Names in the scratch folder: the new folder, and the old target."""
ATTEMPTS = 100
"""
Maximum number of attempts at a replacement. Other processes may create or remove the same path
during an attempt.
"""
AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Linux constants for renameat2: paths relative to the working directory, and an exchange."""


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
            with make_beside(target) as scratch:
                yield scratch
                put_in_place(scratch, target)
        except OSError as error:
            # The system's error names a temporary file, which the user does not know.
            raise self._fail_to_write(error, folder) from error

    def _fail_to_write(self, error: OSError, folder: str | os.PathLike[str]) -> ProgramError:
        cause = f"cannot write the {self.name}: {error.strerror}"
        return ProgramError(cause, str(folder), "give another path")


@contextmanager
def make_beside(target: Path) -> Generator[Path]:
    """
    Makes a scratch folder in the parent of `target`, and removes it at the end.

    First cleans up after processes that were killed while they replaced `target`: removes their
    scratch folders and restores the old `target`. A locked folder belongs to a running process.
    """
    for left in target.parent.glob(f".{glob.escape(target.name)}-*"):
        _recover(left, target)
    while True:
        scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
        # Before the lock, another process may have removed the folder as abandoned.
        with suppress(FileNotFoundError):
            lock = os.open(scratch, os.O_RDONLY)
            if _is_locked(lock) and scratch.exists():
                break
            os.close(lock)
    try:
        (scratch / NEW).mkdir()
        yield scratch / NEW
    finally:
        _clear(scratch, target)
        os.close(lock)


def put_in_place(new: Path, target: Path) -> None:
    """
    Replaces `target` (if it exists) by a folder that `make_beside` made.

    Linux exchanges the folders atomically. Other systems rename the old `target` first; if the
    process is killed in between, the next `make_beside` restores `target`.
    """
    for _ in range(ATTEMPTS):
        try:
            os.rename(new, target)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES):
                raise
        reason = _exchange(new, target)
        if reason == 0:
            return
        if reason != errno.ENOENT:
            os.rename(target, new.parent / OLD)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(target))


def _exchange(one: Path, other: Path) -> int:
    """Exchanges two paths. Returns 0, or the errno of the failure."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return errno.ENOSYS
    failed = renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    return ctypes.get_errno() if failed else 0


def _is_locked(folder: int) -> bool:
    """True if this process can lock the folder now. Always True on systems without locks."""
    try:
        import fcntl

        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError) as error:
        return not isinstance(error, BlockingIOError)
    return True


def _recover(left: Path, target: Path) -> None:
    try:
        lock = os.open(left, os.O_RDONLY)
    except OSError:
        return
    try:
        if _is_locked(lock):
            _clear(left, target)
    finally:
        os.close(lock)


def _clear(scratch: Path, target: Path) -> None:
    """Removes a scratch folder. Restores the old target if the target is missing."""
    if (scratch / OLD).exists() and not target.exists():
        with suppress(OSError):
            os.rename(scratch / OLD, target)
    shutil.rmtree(scratch, ignore_errors=True)
