"""Files appear whole or not at all: a reader never meets half of one, and an error leaves none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """
    Writes beside the target, then renames. Raises `OSError`; the old file stays then.

    What is no file (a pipe, `/dev/stdout`) is written to; a link stays one.
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
