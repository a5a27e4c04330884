"""Makes Python's memory small and easy to compress before a snapshot."""

import gc
import linecache
import os
import typing
from abc import ABCMeta
from pathlib import Path

SMALL = range(32, 513, 16)
LARGE = [1 << n for n in range(18, 10, -1)]
"""Sizes of large blocks in bytes."""
HEADER = 17
"""Size of an empty `bytes` in bytes."""
HELD = 1 << 19
"""Number of bytes to allocate in blocks of each small size."""


def tidy() -> None:
    """Empties caches, and overwrites free memory by zeros."""
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
    """Overwrites free memory by allocating zeroed blocks, first small and then large ones."""
    for sizes in (SMALL, LARGE):
        held: list[list[bytes | None]] = []
        for size in sizes:
            held.append([bytes(size - HEADER) for _ in range(max(HELD // size, 16))])
        for blocks in held:
            blocks[:] = [None] * len(blocks)
