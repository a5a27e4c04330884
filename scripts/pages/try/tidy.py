"""
Makes Python's memory small and easy to compress, before the picture of it is taken.

`strip` takes what the corpus does not use out of compiled modules: a function that it does not call
stops Python, as a function of WebAssembly does that is not there.
`tidy` empties caches, and writes zeros over memory that is free.
"""

import contextlib
import gc
import importlib
import inspect
import linecache
import marshal
import os
import sys
import typing
from abc import ABCMeta
from pathlib import Path
from types import CodeType
from typing import Any

SMALL = range(32, 513, 16)
LARGE = [1 << n for n in range(18, 10, -1)]
"""Bytes of blocks."""
HEADER = 17
"""Bytes of an empty `bytes`."""
HELD = 1 << 19
"""Bytes to take of each small size."""

MODULES = Path("/tmp/modules")
"""Names of the modules that the corpus imports."""
KEPT = (
    "/xdsl_spirv/interpreter/",
    "/xdsl_spirv/tools/kernel_test/",
    "/weakref.py",
    "/_weakrefset.py",
)
"""Parts of paths of modules that keep all functions: kernels and the collector call them."""


def strip(watch: Any) -> None:
    """Takes lines, documentation and functions that were not called out of imported modules."""
    early = {*watch.EARLY, "watch"}
    MODULES.write_text("\n".join(name for name in sys.modules if name not in early))
    for path in Path("/tmp/site").rglob("*.pyc"):
        data = path.read_bytes()
        code = marshal.loads(data[16:])
        if watch.place(code) in watch.called:
            path.write_bytes(data[:16] + marshal.dumps(_strip_code(code, watch)))
    print(len(watch.called), "functions of Python are called")


def _stop() -> None:
    __import__("os").abort()


def _strip_code(code: CodeType, watch: Any) -> CodeType:
    flags = code.co_flags & ~inspect.CO_HAS_DOCSTRING
    kept = flags & inspect.CO_GENERATOR or any(part in code.co_filename for part in KEPT)
    if kept or watch.place(code) in watch.called:
        constants = [
            _strip_code(c, watch) if isinstance(c, CodeType) else c for c in code.co_consts
        ]
        if flags != code.co_flags:
            constants[0] = None
        return code.replace(co_flags=flags, co_linetable=b"", co_consts=tuple(constants))
    stop = _stop.__code__
    return code.replace(
        co_flags=flags,
        co_code=stop.co_code,
        co_consts=stop.co_consts,
        co_names=stop.co_names,
        co_stacksize=stop.co_stacksize,
        co_linetable=b"",
        co_exceptiontable=b"",
    )


def load() -> None:
    """Imports the modules that the corpus imports, as `strip` left them."""
    for name in MODULES.read_text().split("\n"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


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
            held.append([bytes(size - HEADER) for _ in range(max(HELD // size, 16))])
        for blocks in held:
            blocks[:] = [None] * len(blocks)
