"""
Makes Python's memory small and easy to compress, before the picture of it is taken.

`strip` takes the tables of lines out of compiled modules. `tidy` empties caches, and writes zeros
over memory that is free.
"""

import gc
import linecache
import marshal
import os
import typing
from abc import ABCMeta
from pathlib import Path
from types import CodeType

SMALL = range(32, 513, 16)
LARGE = [1 << n for n in range(20, 10, -1)]
"""Bytes of blocks."""
HEADER = 17
"""Bytes of an empty `bytes`."""
HELD = 3 << 19
"""Bytes to take of each small size."""


def strip(folder: str = "/tmp/site") -> None:
    """Takes the tables of lines out of all compiled modules."""
    for path in Path(folder).rglob("*.pyc"):
        data = path.read_bytes()
        path.write_bytes(data[:16] + marshal.dumps(_without_lines(marshal.loads(data[16:]))))


def _without_lines(code: CodeType) -> CodeType:
    constants = (_without_lines(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_linetable=b"", co_consts=tuple(constants))


def tidy() -> None:
    """Leaves only what is in use."""
    os.chdir("/tmp")
    for path in Path("/work").iterdir():
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
            held.append([bytes(size - HEADER) for _ in range(max(HELD // size, 48))])
        for blocks in held:
            blocks[:] = [None] * len(blocks)
