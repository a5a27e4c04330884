"""Computes the live ranges of buffers, and the memory in use at each dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl_spirv.runtime.manifest import Function, Manifest


@dataclass(frozen=True)
class Lifetime:
    """
    A buffer with its live range, given by dispatch indices in the whole program.

    A temporary is live from the first to the last dispatch that uses it. Any other buffer, and a
    result that is computed once, is live during the whole function. `bytes` is None if a size is
    known only at run time. `offset` is None if the buffer has a separate allocation.
    """

    name: str
    kind: str
    type: str
    bytes: int | None
    offset: int | None
    first: int
    last: int
    function: str | None = None


def lifetimes_of(manifest: Manifest) -> tuple[Lifetime, ...]:
    """Returns the live ranges of the buffers of all functions, in the manifest's order."""
    lives: list[Lifetime] = []
    start = 0
    for function in (manifest, *manifest.functions):
        name = function.function if manifest.functions else None
        lives += _of_function(function, start, name)
        start += len(function.dispatches)
    return tuple(lives)


def _of_function(function: Manifest | Function, start: int, name: str | None) -> list[Lifetime]:
    end = start + max(0, len(function.dispatches) - 1)
    uses: dict[str, list[int]] = {}
    kept: set[str] = set()
    for number, dispatch in enumerate(function.dispatches, start):
        for binding in dispatch.bindings:
            uses.setdefault(binding.buffer, []).append(number)
        if dispatch.once:
            kept |= {binding.buffer for binding in dispatch.bindings}
    lives: list[Lifetime] = []
    for buffer in function.buffers:
        used = uses.get(buffer.name)
        first, last = start, end
        if buffer.kind == "temporary" and buffer.name not in kept and used:
            first, last = used[0], used[-1]
        known = buffer.kind != "scalar" and not buffer.is_dynamic
        count = buffer.bytes if known else None
        lives.append(
            Lifetime(buffer.name, buffer.kind, str(buffer), count, buffer.offset, first, last, name)
        )
    return lives


def in_use(lifetimes: Sequence[Lifetime], dispatches: int) -> list[int]:
    """Returns the bytes of live temporaries at each dispatch; empty if a size is unknown."""
    temporaries = [life for life in lifetimes if life.kind == "temporary"]
    if not temporaries or any(life.bytes is None for life in temporaries):
        return []
    changes = [0] * (dispatches + 1)
    for life in temporaries:
        changes[life.first] += life.bytes or 0
        changes[min(life.last + 1, dispatches)] -= life.bytes or 0
    used: list[int] = []
    level = 0
    for change in changes[:dispatches]:
        level += change
        used.append(level)
    return used
