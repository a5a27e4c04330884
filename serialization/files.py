"""
Replaces files and folders atomically: readers never see half of one, and an error leaves the old
one.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

NEW, OLD = "new", "old"
"""Contents of the folder in which another one is made."""
ATTEMPTS = 100
"""Number of attempts: other processes may fill or empty a place at just that moment."""
AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Linux' names for relative paths, and for renameat2's exchange."""


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """
    Writes a file beside the target, then renames it. Raises `OSError`, and keeps the old file then.
    Other kinds of files (a pipe, `/dev/stdout`) are written to directly; a link stays a link.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    if target.is_symlink():
        target = Path(os.path.realpath(target))
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp makes private files; the umask of the process decides for ours.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


@contextmanager
def beside(target: Path) -> Generator[Path]:
    """
    Makes a folder beside `target`, for `put_in_place`; removes it at the end with its contents.

    Folders left behind by a process that was killed here are removed first, and its old `target` is
    put back. A locked folder belongs to a running process.
    """
    for left in target.parent.glob(f".{glob.escape(target.name)}-*"):
        _recover(left, target)
    while True:
        scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
        # Another process may have removed the folder as left behind, before it was locked.
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
    Replaces `target`, if it exists, by a folder that `beside` made.

    On Linux both are exchanged at once, so that `target` always exists. Elsewhere `target` is moved
    away first; after a crash the next process puts it back.
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
    """Exchanges two paths. Returns 0, or the system's number of an error."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return errno.ENOSYS
    failed = renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    return ctypes.get_errno() if failed else 0


def _is_locked(folder: int) -> bool:
    """True if this process can lock a folder now; always true on systems without locks."""
    try:
        import fcntl

        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError) as error:
        return not isinstance(error, BlockingIOError)
    return True


def _recover(left: Path, target: Path) -> None:
    """Cleans up after a process that was killed."""
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
    """Removes the folder in which another one was made; puts the old target back if needed."""
    if (scratch / OLD).exists() and not target.exists():
        with suppress(OSError):
            os.rename(scratch / OLD, target)
    shutil.rmtree(scratch, ignore_errors=True)
