"""
Tracks which accesses of other invocations atomics have ordered before an invocation's next access.

A release records all accesses that are ordered before it. The record belongs to the location that
the atomic writes. Later read-modify-writes add their records (the release sequence), until a store
without a release starts a new sequence. An acquire of that location takes over the records for the
storage classes that both atomics name. The scopes of both atomics must contain both invocations. A
memory barrier releases together with the atomic writes after it, and acquires together with the
atomic reads before it.

While a launch runs, atomics and barriers are only logged. The log is processed when an access is
found that no barrier orders, which is rare.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.interpreter.checks.accessors import (
    SAME_DEVICE,
    SAME_INVOCATION,
    SAME_SUBGROUP,
    SAME_WORKGROUP,
    Accessors,
)
from xdsl_spirv.interpreter.checks.horizons import STORAGES, Snapshot
from xdsl_spirv.interpreter.checks.knowledge_tables import (
    LEVELS,
    ROWS,
    Acquire,
    Gathered,
    Heads,
    Join,
    Link,
    Node,
    Release,
    Tables,
)
from xdsl_spirv.interpreter.checks.memory_model import Semantics
from xdsl_spirv.interpreter.numbers import Array

LOGGED = 1 << 23
"""Number of logged atomic accesses at which the log is processed and emptied."""


@dataclass
class Barrier:
    """A logged control barrier with its participating invocations, or a memory barrier."""

    op: Operation
    stamp: int
    semantics: Semantics
    lanes: Array
    local: Snapshot
    level: int = SAME_INVOCATION
    """Level of the execution scope, SAME_INVOCATION for a memory barrier."""
    fences: bool = True


@dataclass
class Atomic:
    """A logged atomic instruction: its locations, and its invocations in order of execution."""

    op: Operation
    stamp: int
    scope: int
    reads: bool
    memory: int
    places: Array
    lanes: Array
    wrote: Array
    semantics: tuple[Semantics, Semantics]
    """Memory semantics for invocations that wrote, then for invocations that only read."""
    local: Snapshot


@dataclass
class Failure:
    """Two atomics on one location that do not synchronize, with the reason."""

    release: Operation
    acquire: Operation
    why: str
    between: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Pairs of (releasing, acquiring) workgroup indices."""


@dataclass
class Knowledge:
    """
    For each invocation, the accesses of other invocations that atomics order before its next
    access.
    """

    active: bool
    fenced: bool = True
    """True if the module has a barrier that makes atomics next to it release or acquire."""
    tables: Tables = None  # pyright: ignore
    log: list[Barrier | Atomic] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.logged = 0
        self.nodes: dict[int, Node] = {}
        self.chains: dict[tuple[int, int], dict[int, Link]] = {}
        """
        Maps a location to the last release by each invocation, by each group, and by any
        invocation.
        """
        self.fences: dict[tuple[int, int, int], Release] = {}
        self.pending: dict[int, dict[tuple[int, int], tuple[Heads, int]]] = {}

    def start(self, accessors: Accessors) -> None:
        """Begins a launch, or the next chunk of workgroups in it."""
        if not self.active:
            return
        if self.tables is None:  # pyright: ignore
            self.tables = Tables(accessors)

    def add(self, event: Barrier | Atomic) -> None:
        """Logs a barrier or an atomic."""
        self.log.append(event)
        self.logged += len(event.lanes)
        if self.logged > LOGGED:
            self.replay()

    def replay(self) -> None:
        """Processes the barriers and atomics that were logged since the last call."""
        log, self.log, self.logged = self.log, [], 0
        for event in log:
            if isinstance(event, Atomic):
                self._atomic(event)
                continue
            if event.fences:
                self._release_fence(event)
            if event.level:
                self._join(event)
            if event.fences:
                self._acquire_fence(event)

    def _atomic(self, event: Atomic) -> None:
        columns = event.places.tolist(), event.lanes.tolist(), event.wrote.tolist()
        for number, lane, wrote in zip(*columns, strict=True):
            place = event.memory, number
            semantics = event.semantics[0 if wrote else 1]
            chain = self.chains.get(place) if event.reads else None
            if chain:
                self._read(event, lane, place, self._heads(chain, lane), semantics)
            if not wrote:
                continue
            releases = list(self._fences_of(lane, event.scope))
            if semantics.release:
                before, local = self.nodes.get(lane), event.local
                releases.insert(0, Release(lane, event.stamp, semantics, before, local, event.op))
            if not event.reads:
                self.chains.pop(place, None)
            if releases:
                self._extend(self.chains.setdefault(place, {}), releases)

    def _extend(self, chain: dict[int, Link], releases: Iterable[Release]) -> None:
        for release in releases:
            groups = self.tables.groups(release.lane)
            link = Link(tuple(map(chain.get, groups)), release)
            chain.update(dict.fromkeys(groups, link))

    def _heads(self, chain: dict[int, Link], lane: int) -> Heads:
        return tuple(map(chain.get, self.tables.groups(lane)))

    def _read(
        self, event: Atomic, lane: int, place: tuple[int, int], heads: Heads, semantics: Semantics
    ) -> None:
        if semantics.acquire:
            self._acquire(event.op, lane, heads, semantics, event.local)
        if self.fenced:
            self.pending.setdefault(lane, {})[place] = heads, event.scope

    def _acquire(
        self, op: Operation, lane: int, heads: Heads, semantics: Semantics, local: Snapshot
    ) -> None:
        before = self.nodes.get(lane)
        if (
            isinstance(before, Acquire)
            and before.heads[-1] is heads[-1]
            and before.semantics == semantics
            and before.local.groups is local.groups
        ):
            return
        self._explain(op, lane, last_of(heads), semantics)
        self.nodes[lane] = Acquire(lane, semantics, before, heads, local)

    def _explain(self, op: Operation, lane: int, release: Release, semantics: Semantics) -> None:
        level = self.tables.accessors.between(release.lane, lane)
        why = ""
        if not release.semantics.release & semantics.acquire:
            why = "they have no storage class in common"
        elif min(release.semantics.scope, semantics.scope) < level:
            why = "their scopes do not include both invocations"
        if not why:
            return
        pairs = ((f.release, f.acquire) for f in self.failures)
        if (release.op, op) not in pairs:
            self.failures.append(Failure(release.op, op, why))
        per_workgroup = self.tables.accessors.per_workgroup
        for failure in self.failures:
            if failure.release is release.op and failure.acquire is op:
                failure.between.add((release.lane // per_workgroup, lane // per_workgroup))

    def failure_between(self, earlier: int, later: int) -> Failure | None:
        """Returns the atomics that should have ordered two workgroups but did not, or None."""
        return next((f for f in self.failures if (earlier, later) in f.between), None)

    def _fences_of(self, lane: int, scope: int) -> Iterable[Release]:
        """
        Yields a release for each memory barrier that precedes an atomic write of an invocation.
        """
        fences: dict[int, Release] = {}
        for storage in range(STORAGES):
            for level in range(SAME_SUBGROUP, LEVELS):
                fence = self.fences.get((lane, storage, level))
                if fence is not None:
                    fences[id(fence)] = fence
        for fence in fences.values():
            if scope >= fence.semantics.scope:
                yield fence
            else:
                yield Release(
                    lane,
                    fence.stamp,
                    fence.semantics.within(scope),
                    fence.before,
                    fence.local,
                    fence.op,
                )

    def _release_fence(self, event: Barrier) -> None:
        semantics = event.semantics
        if not semantics.release:
            return
        for lane in event.lanes.tolist():
            release = Release(
                lane, event.stamp, semantics, self.nodes.get(lane), event.local, event.op
            )
            for storage in range(STORAGES):
                if semantics.release & 1 << storage:
                    self.fences[lane, storage, semantics.scope] = release

    def _acquire_fence(self, event: Barrier) -> None:
        semantics = event.semantics
        if not semantics.acquire or not self.pending:
            return
        for lane in event.lanes.tolist():
            waiting = self.pending.get(lane, {})
            for place, (heads, scope) in list(waiting.items()):
                self._acquire(event.op, lane, heads, semantics.within(scope), event.local)
                if not last_of(heads).semantics.release & ~semantics.acquire:
                    del waiting[place]

    def _join(self, event: Barrier) -> None:
        """Records that a control barrier orders earlier accesses of all its invocations."""
        semantics = event.semantics
        self._meet(event)
        if not semantics.both:
            return
        level = min(event.level, semantics.scope)
        if not self.nodes or not level:
            return
        accessors = self.tables.accessors
        parties = accessors.subgroup_of if level == SAME_SUBGROUP else accessors.group_of
        lanes = event.lanes
        teams = parties(lanes)
        known = np.array(sorted(self.nodes), np.int64)
        for team in np.unique(parties(known)).tolist():
            members = lanes[teams == team].tolist()
            others: dict[int, tuple[int, Node]] = {}
            for lane in members:
                node = self.nodes.get(lane)
                if node is not None:
                    others.setdefault(id(node), (lane, node))
            if others:
                self._pass(members, semantics, list(others.values()), level)

    def _meet(self, event: Barrier) -> None:
        """
        Passes the releases of each invocation to all invocations at a control barrier. Covers the
        kinds of storage that the barrier itself does not order.
        """
        accessors, lanes = self.tables.accessors, event.lanes
        near = event.level == SAME_SUBGROUP
        teams = (accessors.subgroup_of if near else accessors.group_of)(lanes)
        for team in np.unique(teams).tolist():
            chain: dict[int, Link] = {}
            members = lanes[teams == team].tolist()
            for lane in members:
                releases = self._fences_of(lane, SAME_DEVICE)
                self._extend(
                    chain, [r for r in releases if r.semantics.release & ~event.semantics.both]
                )
            if not chain:
                continue
            for lane in members:
                heads = self._heads(chain, lane)
                self.pending.setdefault(lane, {})[-1, event.stamp] = heads, SAME_DEVICE

    def _pass(
        self, members: list[int], semantics: Semantics, others: list[tuple[int, Node]], level: int
    ) -> None:
        joined: dict[int, Node] = {}
        level = min(level, SAME_WORKGROUP)
        gathered = Gathered(semantics, others, level)
        if len(others) == 1:
            node = others[0][1]
            if (
                isinstance(node, Join)
                and node.semantics == semantics
                and node.gathered.level >= level
            ):
                if all(self.nodes.get(lane) is node for lane in members):
                    return
        for lane in members:
            before = self.nodes.get(lane)
            key = id(before)
            if key not in joined:
                joined[key] = Join(lane, semantics, before, gathered)
            self.nodes[lane] = joined[key]

    def rows(self, lanes: Array, codes: Array, storage: int) -> Array:
        """
        Returns `ROWS` time stamps for each pair of a lane and an accessor code. The lane knows the
        accessor's accesses up to these times.
        """
        questions = np.unique(np.stack([lanes, codes]), axis=1, return_inverse=True)
        (asking, about), place = questions[0].tolist(), questions[1].reshape(-1)
        answers = np.zeros((len(asking), ROWS), np.int64)
        for number, (lane, code) in enumerate(zip(asking, about, strict=True)):
            node = self.nodes.get(lane)
            if node is not None:
                table = self.tables.table(node)
                answers[number] = self.tables.row_of(table, code, storage)
        return answers[place]


def last_of(heads: Heads) -> Release:
    """Returns the latest of the releases that a read synchronizes with."""
    assert heads[-1] is not None
    return heads[-1].release
