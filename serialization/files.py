"""
Replaces files and folders atomically. A reader sees either the old or the new version, also if an
error occurs.
"""

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
"""Names in the scratch folder: the new folder, and the old target."""
ATTEMPTS = 100
"""Number of attempts, since other processes may create or remove the same path in between."""
AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Linux constants for renameat2: paths relative to the working directory, and an exchange."""


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """
    Replaces a file atomically, or raises `OSError` and leaves the old file unchanged. Follows
    symbolic links. Writes directly to a path that is not a regular file (`/dev/stdout`).
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
        # mkstemp makes files private, so the permissions are set as the umask allows.
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
    Replaces `target` (if it exists) by a folder that `beside` made.

    Linux exchanges the folders atomically. Other systems rename the old `target` first; if the
    process is killed in between, the next `beside` restores `target`.
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
