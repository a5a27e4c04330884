"""
Places the caches of this package on disk, limits their sizes, and caches passed checks.

A cache is a folder in $XDG_CACHE_HOME/xdsl-spirv, or in the folder that XDSL_SPIRV_CACHE names.
XDSL_SPIRV_CACHE=0 disables all caches. A user who can write to these folders could also replace
this package.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import xdsl_spirv

VARIABLE = "XDSL_SPIRV_CACHE"
CHECKED = "checked"
"""Cache of passed checks: an empty file for each, named by a digest of the check's inputs."""
MOST_CHECKED = 4096
"""Maximum number of cached checks. The oldest are removed."""


def cache_folder(name: str) -> Path | None:
    """Returns the folder of the cache `name`, or None if caches are disabled."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named in ("", "0") else Path(named, name)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "xdsl-spirv" / name


def drop_oldest(base: Path, most: int, most_bytes: float = math.inf) -> None:
    """
    Removes the oldest entries of a folder, so that at most `most` entries of `most_bytes` bytes
    remain.

    The latest entry always remains.
    """
    latest_first = sorted(base.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
    size = 0
    for number, entry in enumerate(latest_first):
        files = [entry] if entry.is_file() else entry.rglob("*")
        size += sum(file.stat().st_size for file in files if file.is_file())
        if number < most and (size <= most_bytes or not number):
            continue
        if entry.is_file():
            entry.unlink(missing_ok=True)
        else:
            shutil.rmtree(entry, ignore_errors=True)


def checked_once(pieces: Iterable[bytes], check: Callable[[], None]) -> None:
    """
    Calls `check`, unless the cache tells that it passed before in this version of the package, for
    the same bytes in `pieces`.
    """
    digest = hashlib.sha256(xdsl_spirv.__version__.encode())
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
    folder = cache_folder(CHECKED)
    if folder is not None and (folder / digest.hexdigest()).exists():
        return
    check()
    if folder is not None:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / digest.hexdigest()).touch()
            drop_oldest(folder, MOST_CHECKED)
