"""
Caches passed checks, so that a program is checked only once, not at every start.

A passed check is an empty file. Its name is a digest of the check's inputs and of this package's
version. The file is in $XDG_CACHE_HOME/xdsl-spirv/checked, or in `checked` of the folder that
XDSL_SPIRV_CACHE names. XDSL_SPIRV_CACHE=0 disables the cache. A user who can write to this folder
could also replace this package.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import xdsl_spirv

VARIABLE = "XDSL_SPIRV_CACHE"
NAME = "checked"
MOST = 4096
"""Maximum number of stored digests. If there are more, all are removed."""


def checked_once(pieces: Iterable[bytes], check: Callable[[], None]) -> None:
    """Calls `check`, unless a call with the same bytes in `pieces` has passed before."""
    digest = hashlib.sha256(xdsl_spirv.__version__.encode())
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
    folder = _folder()
    if folder is not None and (folder / digest.hexdigest()).exists():
        return
    check()
    if folder is not None:
        _keep(folder, digest.hexdigest())


def _folder() -> Path | None:
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named in ("", "0") else Path(named, NAME)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "xdsl-spirv" / NAME


def _keep(folder: Path, name: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = os.listdir(folder)
        for old in kept if len(kept) >= MOST else ():
            os.unlink(folder / old)
        (folder / name).touch()
    except OSError:
        return
