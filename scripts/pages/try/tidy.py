"""Makes Python's memory small and easy to compress, before the picture of it is taken."""

import gc
import linecache
import os
import typing
from abc import ABCMeta
from pathlib import Path

SMALL = range(32, 513, 16)
LARGE = [1 << n for n in range(18, 10, -1)]
"""Bytes of blocks."""
HEADER = 17
"""Bytes of an empty `bytes`."""
HELD = 1 << 19
"""Bytes to take of each small size."""


def tidy() -> None:
    """Empties caches, and writes zeros over memory that is free."""
    os.chdir("/tmp")
    for path in Path("/page").iterdir():
        path.unlink()
    linecache.clearcache()
    for clear in typing._cleanups:  # type: ignore[attr-defined]
        clear()
    for kind in gc.get_objects():
        if isinstance(kind, ABCMeta):
            kind._abc_caches_clear()  # type: ignore[attr-defined]
    gc.collect()
    _overwrite()
    gc.collect()
    gc.freeze()


def _overwrite() -> None:
    """Small blocks take what lies between others; large ones then take what the small ones left."""
    for sizes in (SMALL, LARGE):
        held: list[list[bytes | None]] = []
        for size in sizes:
            held.append([bytes(size - HEADER) for _ in range(max(HELD // size, 16))])
        for blocks in held:
            blocks[:] = [None] * len(blocks)
