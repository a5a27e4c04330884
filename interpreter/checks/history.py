"""
Records the last writer and the readers of each memory location.

Memory is divided into granules, whose size divides the size and address of every access. Two
history words for each granule record the last write and the reads since that write. A history word
is a time stamp and an accessor code (accessors.py). If several invocations read a granule, or
several atomics change it, the code is that of a group that contains them all. If atomics can order
invocations, the single accesses are recorded, too.

Buffers that share bytes (such as one array bound twice) have one history.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import gcd
from typing import TypeAlias

import numpy as np

from xdsl_spirv.interpreter.checks.accesses import Access
from xdsl_spirv.interpreter.checks.accessors import IDENTITY, KIND, LANE, Accessors
from xdsl_spirv.interpreter.checks.shadow import UNWRITTEN
from xdsl_spirv.interpreter.memories import overlapping
from xdsl_spirv.interpreter.memory import Memory, Rows
from xdsl_spirv.interpreter.numbers import Array

KEPT = 1 << 24
"""Maximum number of accesses by single invocations that are recorded for a region of memory."""

HELD = 8
"""Maximum number of reads of a region of memory that wait to be recorded."""

LAST_READS, OTHER_READS = "last reads", "other reads"
"""Keys of `Region.words` for the last two different readers of a granule."""

Single: TypeAlias = tuple[Array, Array]
"""Accesses by single invocations: (granule indices, time stamps with accessor codes)."""


class Region:
    """
    A range of bytes that one or more memories share, divided into granules, with the history of its
    accesses.
    """

    def __init__(
        self, rows: Rows, count: int, size: int, granule: int, names: AbstractSet[str] = frozenset()
    ):
        self.rows: Rows = rows
        self.count, self.size, self.granule = count, size, granule
        self.length = -(-size // granule)
        self.names = names
        self.words = {
            "writes": np.zeros(count * self.length, np.int64),
            "reads": np.zeros(count * self.length, np.int64),
        }
        self.last = {"writes": 0, "reads": 0}
        """The latest recorded time stamp of a write and of a read."""
        self.held: list[tuple[int, History, Access]] = []
        """Reads that are not recorded in `words` yet, with their time stamps."""
        self.singles: dict[str, list[Single]] = {"writes": [], "reads": []}
        self._kept = 0

    def words_of(self, which: str) -> Array:
        """
        Returns one history word for each granule. `which` names the history: `writes`, `reads`, ...
        """
        if which not in self.words:
            self.words[which] = np.zeros(self.count * self.length, np.int64)
        return self.words[which]

    def refine(self, granule: int) -> None:
        """Splits the granules (equal byte ranges) so that their size divides `granule`."""
        finer = gcd(self.granule, granule)
        if finer == self.granule:
            return
        factor = self.granule // finer
        length = -(-self.size // finer)
        for which, words in self.words.items():
            old = words.reshape(self.count, self.length)
            new = np.repeat(old, factor, axis=1)[:, :length]
            self.words[which] = new.reshape(-1).copy()
        parts = np.arange(factor)
        for which, singles in self.singles.items():
            self.singles[which] = [
                (self._split(index, factor, length, parts), np.repeat(words, factor))
                for index, words in singles
            ]
        self.granule, self.length = finer, length

    def _split(self, index: Array, factor: int, length: int, parts: Array) -> Array:
        row, place = index // self.length, index % self.length
        fine = place[:, None] * factor + parts
        return (row[:, None] * length + np.minimum(fine, length - 1)).reshape(-1)

    def keep(self, which: str, index: Array, words: Array) -> None:
        """
        Records accesses by single invocations to the granules `index`. Afterwards, a group's record
        may replace their words.
        """
        if self._kept < KEPT:
            self._kept += index.size
            self.singles[which].append((index, words))

    def keep_last(self, index: Array, now: Array, earlier: Array, fresh: Array) -> Array | None:
        """
        Records the last two different readers of each granule that several invocations read.

        `now` and `earlier` are the readers of the granules `index`. `fresh` is a mask of the
        granules whose earlier reader is taken into account. Returns a mask of the granules with two
        different readers, or None if there are none.
        """
        if not fresh.any():
            return None
        several = fresh & ((earlier ^ now) & IDENTITY != 0)
        if not several.any():
            return None
        places, before, own = (
            np.broadcast_to(words, several.shape)[several] for words in (index, earlier, now)
        )
        last = self.words_of(LAST_READS)
        before = np.where(last[places] >> 32 == before >> 32, last[places], before)
        others = (before ^ own) & IDENTITY != 0
        self.words_of(OTHER_READS)[places[others]] = before[others]
        last[places] = own
        return several

    def join(
        self,
        which: str,
        index: Array,
        now: Array,
        earlier: Array,
        fresh: Array,
        accessors: Accessors,
        keep: bool,
    ) -> None:
        """
        Stores the accessors `now` of the granules `index`. Where `fresh` is set, stores the
        smallest group that contains the accessors `earlier` and `now`. With `keep`, also records
        the accesses by single invocations.
        """
        words, join = self.words[which], accessors.join
        new = np.where(fresh, join(earlier, now), now) if fresh.any() else now
        words[index] = new
        back = words[index]
        clash = back != new
        several = fresh | clash
        if keep and several.any():
            places = np.broadcast_to(index, several.shape)[several]
            for side in (earlier, now):
                kept = np.broadcast_to(side, several.shape)[several]
                one = (kept != 0) & ((kept & KIND) == LANE) | (side is now)
                self.keep(which, places[one], kept[one])
        if not clash.any():
            return
        own = np.broadcast_to(now, clash.shape)[clash]
        words[np.broadcast_to(index, clash.shape)[clash]] = join(
            np.broadcast_to(back, clash.shape)[clash], own
        )
        # One of three writers to a word may be lost. All words that still differ are joined
        # again.
        again = words[index]
        words[index] = np.maximum(again, join(again, np.broadcast_to(now, again.shape)))

    def singles_at(self, which: str, index: Array, words: Array) -> tuple[Array, Array]:
        """
        Looks up the accesses by single invocations to the granules `index`. Returns two arrays with
        an entry for each access: the position of its granule in `index`, and its history word.

        Accesses later than the time stamps in `words` are left out. For a granule without such
        accesses, the entry is its word in `words`.
        """
        if self._kept >= KEPT or not self.singles[which]:
            return np.arange(index.size), words
        if len(self.singles[which]) > 1:
            places, kept = (np.concatenate(parts) for parts in zip(*self.singles[which]))
            self.singles[which] = [(places, kept)]
        [(places, kept)] = self.singles[which]
        order = np.argsort(index, kind="stable")
        ordered = index[order]
        starts = np.searchsorted(ordered, places)
        counts = np.searchsorted(ordered, places, side="right") - starts
        # Index of each pair (position, access) among the pairs of its access.
        within = np.arange(counts.sum()) - (np.cumsum(counts) - counts).repeat(counts)
        positions, singles = order[starts.repeat(counts) + within], kept.repeat(counts)
        earlier = words[positions] >> 32 >= singles >> 32
        positions, singles = positions[earlier], singles[earlier]
        bare = np.ones(index.size, np.bool_)
        bare[positions] = False
        others = np.flatnonzero(bare)
        return np.concatenate([positions, others]), np.concatenate([singles, words[others]])


@dataclass
class History:
    """History of one memory: the part of a region that begins at byte `offset`."""

    memory: Memory
    region: Region
    offset: int = 0


@dataclass
class Bytes:
    """
    Address range of one or more buffers that share bytes. `region` is None until it is needed.
    """

    start: int
    end: int
    names: set[str]
    region: Region | None = None

    def part(self, memory: Memory, offset: int, granule: int) -> History:
        """Returns the history of a buffer that begins `offset` bytes into the range."""
        granule = gcd(granule, offset)
        if self.region is None:
            self.region = Region("shared", 1, self.end - self.start, granule, self.names)
        self.region.refine(granule)
        return History(memory, self.region, offset)


@dataclass
class Histories:
    """Finds the access history of each memory of a launch. Read-only memory has no history."""

    written: AbstractSet[str] | None
    """Names of the variables that the module writes, or None if it may write any variable."""
    buffers: list[Bytes] = field(default_factory=list)

    def bind(self, memories: Iterable[Memory]) -> None:
        """
        Groups the buffers of a launch that share bytes. Ignores groups that are never written.
        """
        spans = ((*_span(memory), memory.names) for memory in memories)
        shared = [Bytes(s, e, set[str]().union(*names)) for s, e, names in overlapping(spans)]
        self.buffers = [bytes for bytes in shared if self._is_written(bytes.names)]

    def of(self, memory: Memory, granule: int) -> History | None:
        """Returns the history of a memory, or None if the memory is never written or not shared."""
        if memory.rows == "lane":
            return None
        if memory.rows == "workgroup":
            if not self._is_written(memory.names):
                return None
            count, size = memory.data.shape
            return History(memory, Region(memory.rows, count, size, granule, memory.names))
        start, end = _span(memory)
        for shared in self.buffers:
            if shared.start <= start and end <= shared.end:
                return shared.part(memory, start - shared.start, granule)
        return None

    def _is_written(self, names: AbstractSet[str]) -> bool:
        return self.written is None or not self.written.isdisjoint(names)


class MemoryShadow:
    """Checking state of a memory: which bytes are undefined, and the history of its accesses."""

    def __init__(self, memory: Memory, undefined: bool):
        self.memory = memory
        self.undefined: Memory | None = None
        self.known: History | None = None
        self.tracked: bool | None = None
        self._read = 0
        """
        Number of bytes loaded since the last store. It is -1 if all bytes were examined since then.
        """
        self._all_defined = not undefined
        if undefined:
            data = np.full(memory.data.shape, UNWRITTEN, np.uint8)
            data[:, : memory.defined] = 0
            self.undefined = Memory(data, memory.rows, memory.batch)

    def to_read(self, count: int) -> Memory | None:
        """
        Returns the mask of undefined bytes for a load of `count` bytes, or None if all bytes are
        defined.

        A search for undefined bytes reads the whole memory. It is therefore repeated only when
        loads have read as many bytes as the memory has.
        """
        if self._all_defined or self.undefined is None:
            return None
        if self._read >= 0:
            self._read += count
        if self._read >= self.undefined.data.size:
            self._all_defined = not self.undefined.data[:, : self.memory.size].max()
            self._read = -1
        return None if self._all_defined else self.undefined

    def to_store(self, defined: bool) -> Memory | None:
        """
        Returns the mask that a store must update. Returns None if the store would not change the
        mask.
        """
        if defined and self._all_defined:
            return None
        self._all_defined, self._read = self.undefined is None, max(self._read, 0)
        return self.undefined

    def history(self, histories: Histories, granule: int) -> History | None:
        """Returns the memory's history, or None if the memory cannot have races."""
        if self.tracked is None:
            self.known = histories.of(self.memory, granule)
            self.tracked = self.known is not None
        return self.known


def _span(memory: Memory) -> tuple[int, int]:
    start = memory.data.ctypes.data
    return start, start + memory.data.shape[1]
