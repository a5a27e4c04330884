"""
Assigns offsets to temporaries in the memory that they share.

A temporary is alive from the first dispatch that uses it to the last. Temporaries that are never
alive at the same time may overlap. The largest are placed first, each at the lowest offset that is
free during its lifetime. This is not optimal, but in practice close to the largest sum of sizes
that are alive at the same time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl_spirv.runtime.manifest import Buffer, Dispatch, Loop

ALIGNMENT = 256
"""Alignment of buffers in bytes. minStorageBufferOffsetAlignment is at most 256."""


@dataclass(frozen=True)
class Assignment:
    """
    Buffers with the offsets of temporaries in their memory. `needed` is the size of this memory in
    bytes, `total` the sum of the sizes of all temporaries.
    """

    buffers: tuple[Buffer, ...]
    needed: int
    total: int


def assign(
    buffers: Sequence[Buffer], dispatches: Sequence[Dispatch], loops: Sequence[Loop] = ()
) -> Assignment:
    """Returns the buffers with an offset for every temporary."""
    lives = lifetimes(dispatches, loops)
    temporaries = [b for b in buffers if b.kind == "temporary"]
    offsets: dict[str, int] = {}
    living = _Pieces()
    for buffer in sorted(temporaries, key=lambda b: -b.bytes):
        life, size = lives.get(buffer.name, (0, 0)), aligned(buffer.bytes)
        offset = offsets[buffer.name] = _lowest(living.during(life), size)
        living.add(life, (offset, offset + size))
    return Assignment(
        tuple(replace(b, offset=offsets[b.name]) if b.name in offsets else b for b in buffers),
        max((offsets[buffer.name] + buffer.bytes for buffer in temporaries), default=0),
        sum(buffer.bytes for buffer in temporaries),
    )


Life: TypeAlias = tuple[int, int]
"""Indices of (first dispatch, last dispatch)."""
Piece: TypeAlias = tuple[int, int]
"""(begin, end) of a range of the memory, in bytes."""
LONG = 64
"""
Maximum lifetime, in dispatches, of memory ranges that are indexed by dispatch. Ranges with longer
lifetimes are searched one by one.
"""


class _Pieces:
    """The memory ranges that are already assigned, indexed by the dispatches that use them."""

    def __init__(self):
        self.at: defaultdict[int, set[Piece]] = defaultdict(set)
        self.long: list[tuple[Life, Piece]] = []

    def add(self, life: Life, piece: Piece) -> None:
        first, last = life
        if last - first > LONG:
            self.long.append((life, piece))
            return
        for dispatch in range(first, last + 1):
            self.at[dispatch].add(piece)

    def during(self, life: Life) -> list[Piece]:
        """Returns the ranges that are in use at any time of a lifetime, sorted by their start."""
        pieces = {piece for other, piece in self.long if overlap(life, other)}
        for dispatch in range(life[0], life[1] + 1):
            pieces |= self.at.get(dispatch, set())
        return sorted(pieces)


def marked(
    buffers: Sequence[Buffer], dispatches: Sequence[Dispatch], loops: Sequence[Loop] = ()
) -> tuple[Dispatch, ...]:
    """
    Returns the dispatches, with `once` set for dispatches that depend only on weights.

    These dispatches have a constant grid and constant push constants, and use no temporary that a
    loop passes from step to step. The first dispatch that uses a temporary counts as the
    temporary's writer.
    """
    constant_buffers = {b.name for b in buffers if b.kind == "weight"}
    temporary = {b.name for b in buffers if b.kind == "temporary"}
    temporary -= {name for loop in loops for name in loop.carried}
    met: set[str] = set()
    dispatches_once: list[Dispatch] = []
    for dispatch in dispatches:
        given = {binding.buffer for binding in dispatch.bindings}
        written = (given & temporary) - met
        numbers = (*dispatch.grid, *(constant.value for constant in dispatch.push_constants))
        depends = any(isinstance(number, str) for number in numbers)
        once = bool(written) and not depends and given - written <= constant_buffers
        if once:
            constant_buffers |= written
        met |= given
        dispatches_once.append(replace(dispatch, once=once))
    return tuple(dispatches_once)


def lifetimes(dispatches: Sequence[Dispatch], loops: Sequence[Loop] = ()) -> dict[str, Life]:
    """
    Returns the indices of the first and the last dispatch that use each buffer.

    Results of dispatches that run once are alive throughout. Buffers that a loop reads from
    outside, or passes from step to step, are alive during the whole loop.
    """
    lives: dict[str, Life] = {}
    kept = {b.buffer for dispatch in dispatches if dispatch.once for b in dispatch.bindings}
    for number, dispatch in enumerate(dispatches):
        for binding in dispatch.bindings:
            first, _ = lives.get(binding.buffer, (number, number))
            lives[binding.buffer] = (first, number)
    for loop in loops:
        begin, last = loop.first, loop.numbers.stop - 1
        inside = {b.buffer for number in loop.numbers for b in dispatches[number].bindings}
        for name in inside:
            first, end = lives[name]
            if name in loop.carried or first < begin or end > last:
                lives[name] = min(first, begin), max(end, last)
    return lives | dict.fromkeys(kept, (0, len(dispatches)))


def overlap(a: Life, b: Life) -> bool:
    """True if two lifetimes have a dispatch in common."""
    return a[0] <= b[1] and b[0] <= a[1]


def aligned(size: int) -> int:
    """Rounds a size up to the next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _lowest(occupied: Sequence[Piece], size: int) -> int:
    """Returns the lowest offset of a gap of `size` bytes between sorted ranges."""
    offset = 0
    for start, end in occupied:
        if offset + size <= start:
            break
        offset = max(offset, end)
    return offset
