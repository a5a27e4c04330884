"""
Turns the garbage collector off while IR is built, because operations refer to each other and
collections are slow.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Generator[None]:
    """
    Runs its block without garbage collection; also as a decorator.

    Few of the objects made while IR is read or lowered become garbage before the end: decoding
    takes half the time without collections, compiling a model a tenth less, for a few megabytes.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def lasting() -> Generator[None]:
    """
    Turns collection off inside, and excludes objects alive at the end from later collections.

    For imports: the objects that modules define are never garbage, and one collection of them takes
    a fifth of the time to compile a small module.
    """
    with without_collection():
        try:
            yield
        finally:
            gc.freeze()
