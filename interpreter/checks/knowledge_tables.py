"""
Tables of the accesses that invocations know of each other.

A table says for each storage and each party that ever released (an invocation, and the subgroup and
workgroup whose barriers it passed) times before which its accesses are known. Row EXECUTION says
that they happen before; the others that they were made available for the level `k` around who knows
(0: visible to it), and hold for writes that by themselves were made available for the level `m` at
least. A table is computed from the tables of the nodes before, when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.interpreter.checks import horizons
from xdsl_spirv.interpreter.checks.accessors import (
    KIND,
    LANE,
    NUMBER,
    SAME_DEVICE,
    SAME_INVOCATION,
    SAME_SUBGROUP,
    SAME_WORKGROUP,
    WORKGROUP,
    Accessors,
)
from xdsl_spirv.interpreter.checks.horizons import STORAGES, Snapshot
from xdsl_spirv.interpreter.checks.memory_model import Semantics
from xdsl_spirv.interpreter.numbers import Array

LEVELS = 4
ROWS = 1 + LEVELS * LEVELS
EXECUTION = 0
PARTIES = 4096
"""After so many releasing invocations further ones count for their whole workgroup."""
TABLES = 1 << 25
"""Number of entries of all tables before older ones are forgotten."""


def row(m: int, k: int) -> int:
    """The row for writes available for `m` by themselves and now for `k`."""
    return 1 + m * LEVELS + k


@dataclass(eq=False)
class Release:
    """The knowledge of an invocation at a release, and the accesses that it released."""

    lane: int
    stamp: int
    semantics: Semantics
    before: Node | None
    local: Snapshot
    op: Operation


@dataclass(eq=False)
class Chain:
    """The releases that a read of a location synchronizes with."""

    before: Chain | None
    release: Release


@dataclass(eq=False)
class Acquire:
    """An acquire: the invocation takes over the knowledge of the chain's releases."""

    lane: int
    semantics: Semantics
    before: Node | None
    chain: Chain
    local: Snapshot


@dataclass(eq=False)
class Join:
    """
    The knowledge of an invocation before a control barrier, joined with the knowledge that came
    through the barrier.
    """

    lane: int
    semantics: Semantics
    before: Node | None
    others: Sequence[tuple[int, Node]]
    level: int


Node = Release | Acquire | Join


@dataclass(eq=False)
class Table:
    """
    The knowledge at a node: times by (storage, row, party), for parties with known accesses only.

    Most invocations hear of few others, so a table has no columns for the rest.
    """

    codes: Array
    """The parties, in order."""
    times: Array

    def spread(self, codes: Array) -> Array:
        """Returns the times with columns for all `codes`; a new party's column holds zeros."""
        if self.codes.size == codes.size:
            return self.times.copy()
        wider = np.zeros((STORAGES, ROWS, codes.size), np.int64)
        wider[:, :, codes.searchsorted(self.codes)] = self.times
        return wider

    def row_of(self, code: int, storage: int) -> Array:
        """The times of one party; zeros if there is no column."""
        column = int(self.codes.searchsorted(code))
        if column == self.codes.size or self.codes[column] != code:
            return NOTHING
        return self.times[storage, :, column]


NOTHING = np.zeros(ROWS, np.int64)
EMPTY = Table(np.zeros(0, np.int64), np.zeros((STORAGES, ROWS, 0), np.int64))


class Tables:
    """The tables of a launch's nodes."""

    def __init__(self, accessors: Accessors):
        self.accessors = accessors
        self.parties: set[int] = set()
        self.states: dict[Node, Table] = {}
        self.held = 0
        """Number of entries of all tables."""

    def party(self, code: int) -> int:
        """The party that stands for an invocation: itself, or its workgroup if there are many."""
        if code not in self.parties:
            if len(self.parties) >= PARTIES and code & KIND == LANE:
                return self.party(WORKGROUP | code // self.accessors.per_workgroup)
            self.parties.add(code)
        return code

    def levels(self, codes: Array, lane: int) -> Array:
        """Returns the smallest scope that contains each party and the invocation."""
        return self.accessors.distance(codes, np.int64(lane))

    def table(self, node: Node) -> Table:
        """Returns the knowledge at a node, computed from the nodes before it."""
        waiting: list[Node] = [node]
        while waiting:
            top = waiting[-1]
            if top in self.states:
                waiting.pop()
                continue
            missing = [n for n in _before(top) if n not in self.states]
            if missing:
                waiting += missing
                continue
            made = self.states[top] = self._compute(top)
            self.held += made.times.size
            waiting.pop()
        table = self.states[node]
        if self.held > TABLES:
            self.states, self.held = {node: table}, table.times.size
        return table

    def _compute(self, node: Node) -> Table:
        lane = node.lane
        local = () if isinstance(node, Join) else self._local(lane, node.local)
        before = None if node.before is None else self.states[node.before]
        sources: list[tuple[Node, int, int, int]] = []
        if isinstance(node, Join):
            sources = [self._through(lane, *other, node) for other in node.others]
        elif isinstance(node, Acquire):
            sources = list(self._taken_over(node))
        parts = [np.array([code for code, _, _ in local], np.int64)]
        parts += [self.states[source].codes for source, *_ in sources]
        if before is not None:
            parts.append(before.codes)
        if isinstance(node, Release):
            parts.append(np.array([self.party(lane)], np.int64))
        codes = np.unique(np.concatenate(parts))
        table = (before or EMPTY).spread(codes)
        for code, level, times in local:
            _add_local(table[:, :, codes.searchsorted(code)], level, times)
        if isinstance(node, Release):
            own = codes.searchsorted(self.party(lane))
            table[:, EXECUTION, own] = node.stamp
            for storage in range(STORAGES):
                if node.semantics.release & 1 << storage:
                    for k in range(SAME_SUBGROUP, node.semantics.available + 1):
                        table[storage, row(0, k), own] = node.stamp
            push(table, self.levels(codes, lane), node.semantics)
            return Table(codes, table)
        for source, other, storages, level in sources:
            theirs = self.states[source].spread(codes)
            if isinstance(node, Join):
                # One of those who come to a barrier makes available what it can.
                push(theirs, self.levels(codes, other), node.semantics)
            pass_over(table, theirs, storages, level)
        pull(table, self.levels(codes, lane), node.semantics)
        return Table(codes, table)

    def _taken_over(self, node: Acquire) -> Iterable[tuple[Node, int, int, int]]:
        """The releases that a read synchronizes with: who released which storage, how far away."""
        for release, before in _synchronizing(node.chain):
            level = self.accessors.between(release.lane, node.lane)
            if level > min(release.semantics.scope, node.semantics.scope):
                continue
            storages = release.semantics.release & node.semantics.acquire
            if storages:
                yield release, release.lane, storages, level
            if _covers(release, before, storages):
                return

    def _through(
        self, lane: int, other: int, source: Node, node: Join
    ) -> tuple[Node, int, int, int]:
        """Another invocation at a barrier, in the form that `_taken_over` returns."""
        storages = node.semantics.release & node.semantics.acquire
        level = self.accessors.between(other, lane)
        # One node stands for several invocations, so only what is known to all of a scope counts.
        return source, other, storages, max(level, min(node.level, SAME_WORKGROUP))

    def _local(self, lane: int, local: Snapshot) -> list[tuple[int, int, Array]]:
        """The order that barriers gave an invocation: parties, their levels, and times."""
        subgroup, group = self.accessors.wider(lane)
        w, s = (group & NUMBER) - local.first, (subgroup & NUMBER) % self.accessors.subgroups_each
        return [
            (self.party(group), SAME_WORKGROUP, local.groups[:, :, w]),
            (self.party(subgroup), SAME_SUBGROUP, local.near[:, :, w, s]),
        ]

    def row_of(self, table: Table, code: int, storage: int) -> Array:
        """Returns a table's row for one party: for a group, at least the rows of all members."""
        parties = [code, *self.accessors.wider(code)]
        best = np.max([table.row_of(party, storage) for party in parties], axis=0)
        members = self.accessors.members(code)
        if members:
            least = np.min([self.row_of(table, one, storage) for one in members], axis=0)
            best = np.maximum(best, least)
        return best


def push(table: Array, levels: Array, semantics: Semantics) -> None:
    """Executes an availability operation: nearby writes become available more widely."""
    for storage in range(STORAGES):
        if not semantics.release & 1 << storage:
            continue
        rows = table[storage]
        top = semantics.available
        for level in range(SAME_SUBGROUP, top + 1):
            near = levels == level
            for k in range(level, top + 1):
                own = rows[row(level, k)]
                own[near] = np.maximum(own, rows[EXECUTION])[near]
        for m in range(LEVELS):
            for k in range(SAME_WORKGROUP, top + 1):
                np.maximum(rows[row(m, k)], rows[row(m, k - 1)], out=rows[row(m, k)])


def pull(table: Array, levels: Array, semantics: Semantics) -> None:
    """Executes a visibility operation: writes that are available to a scope become visible."""
    for storage in range(STORAGES):
        if not semantics.acquire & 1 << storage:
            continue
        rows = table[storage]
        top = semantics.visible
        for level in range(SAME_SUBGROUP, top + 1):
            near = levels == level
            for k in range(level + 1):
                own = rows[row(level, k)]
                own[near] = np.maximum(own, rows[EXECUTION])[near]
        for m in range(LEVELS):
            for k in range(top - 1, -1, -1):
                np.maximum(rows[row(m, k)], rows[row(m, k + 1)], out=rows[row(m, k)])


def pass_over(table: Array, source: Array, storages: int, level: int) -> None:
    """Merges another invocation's table, `level` away, into a table of the same parties."""
    if not storages:
        return
    for storage in range(STORAGES):
        if storages & 1 << storage:
            np.maximum(table[storage, 0], source[storage, 0], out=table[storage, 0])
    for m in range(LEVELS):
        here = slice(row(m, level), row(m, SAME_DEVICE) + 1)
        np.maximum(table[:, here], source[:, here], out=table[:, here])


def _add_local(column: Array, level: int, times: Array) -> None:
    """Put what a party's barriers have ordered into its column (storage, row)."""
    pairs = [
        (EXECUTION, horizons.EXECUTION),
        (row(0, SAME_INVOCATION), horizons.SEEN),
        (row(level, SAME_INVOCATION), horizons.VISIBLE),
    ]
    pairs += [(row(0, k), horizons.AVAILABLE) for k in range(SAME_SUBGROUP, level + 1)]
    for number, kind in pairs:
        column[:, number] = np.maximum(column[:, number], times[:, kind])


def _synchronizing(chain: Chain) -> Iterable[tuple[Release, Chain | None]]:
    """The releases of a chain, the latest first, each with the chain before it."""
    rest: Chain | None = chain
    while rest is not None:
        yield rest.release, rest.before
        rest = rest.before


def _covers(release: Release, before: Chain | None, storages: int) -> bool:
    """Whether who released had acquired all earlier releases, so that they come with it."""
    own = release.before
    return (
        isinstance(own, Acquire)
        and own.chain is before
        and own.semantics.scope == SAME_DEVICE == release.semantics.scope
        and not storages & ~own.semantics.acquire
        and release.semantics.available in (SAME_INVOCATION, SAME_DEVICE)
    )


def _before(node: Node) -> list[Node]:
    nodes: list[Node] = [] if node.before is None else [node.before]
    if isinstance(node, Acquire):
        for release, before in _synchronizing(node.chain):
            nodes.append(release)
            if _covers(release, before, release.semantics.release & node.semantics.acquire):
                break
    if isinstance(node, Join):
        nodes += [source for _, source in node.others]
    return nodes
