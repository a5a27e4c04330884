"""Replaces files atomically. A reader sees either the old or the new version."""

import os
import tempfile
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """
    Replaces a file atomically. If this fails, raises `OSError` and leaves the old file unchanged.

    Follows symbolic links. Writes directly to a path that is not a regular file (`/dev/stdout`).
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
