"""
Stores, for each invocation, which accesses of other invocations happen before its next access.

Each invocation has a table of time stamps, by kind of storage and by party. A party is an
invocation that executed a release, or a subgroup or workgroup with a barrier. The party's accesses
before a stamp are ordered. Row EXECUTION is for all accesses that happen before the present. Each
other row (m, k) is for writes that were available at level `m` or above, and were then made
available at level `k` around the table's invocation (0: visible to the invocation). A table is
computed on demand, from the tables of the preceding releases, acquires and joins.

Tables are immutable trees. A node's table shares all unchanged parts with earlier tables, and a
change to a part shared by many tables is computed once. A message that passes through thousands of
invocations therefore costs each of them only the time and memory of its new parties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, TypeAlias

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
    SEVERAL,
    SUBGROUP,
    WORKGROUP,
    Accessors,
)
from xdsl_spirv.interpreter.checks.horizons import STORAGES, Snapshot
from xdsl_spirv.interpreter.checks.memory_model import Semantics
from xdsl_spirv.interpreter.numbers import Array

LEVELS = 4
ROWS = 1 + LEVELS * LEVELS
EXECUTION = 0
WIDTH = 16
"""Number of children of an inner tree node."""
MEMOS = 1 << 17
"""Maximum number of cached changes. The cache is then cleared."""


def row(m: int, k: int) -> int:
    """
    Returns the index of the row for writes that were available at level `m` and then at level `k`.
    """
    return 1 + m * LEVELS + k


@dataclass(eq=False, slots=True)
class Release:
    """A release by an invocation. `before` and `local` give the accesses that precede it."""

    lane: int
    stamp: int
    semantics: Semantics
    before: Node | None
    local: Snapshot
    op: Operation


@dataclass(eq=False, slots=True)
class Link:
    """
    A release in the release sequence of a location.

    `before` has four earlier releases of the sequence: the last one by the same invocation, by the
    same subgroup, by the same workgroup, and by any invocation.
    """

    before: Heads
    release: Release


Heads: TypeAlias = tuple[Link | None, ...]
"""
The last releases that an invocation can observe: by itself, in its subgroup, in its workgroup, and
anywhere.
"""


@dataclass(frozen=True, slots=True)
class Heard:
    """
    An acquire of a release. It also acquires the earlier releases of the same release sequence.
    """

    link: Link
    level: int
    acquire: int
    scope: int


@dataclass(eq=False, slots=True)
class Gathered:
    """All accesses before a control barrier, by any invocation that reaches the barrier."""

    semantics: Semantics
    others: Sequence[tuple[int, Node]]
    level: int


@dataclass(eq=False, slots=True)
class Acquire:
    """
    An acquire by an invocation. `heads` are the last releases that the acquire reads, by scope
    level.
    """

    lane: int
    semantics: Semantics
    before: Node | None
    heads: Heads
    local: Snapshot


@dataclass(eq=False, slots=True)
class Join:
    """The state after a control barrier. The barrier orders all accesses of its invocations."""

    lane: int
    semantics: Semantics
    before: Node | None
    gathered: Gathered


Node = Release | Acquire | Join

Tree: TypeAlias = Any
"""Time stamps of an invocation or group: an array (storage, row), None, or a tuple of subtrees."""
Step: TypeAlias = tuple[Callable[[Array, int, Any], None], Any]
"""A function that changes time stamps, with the last argument of its calls."""
EMPTY: Tree = (None, None, None)
PARTS: Tree = (None,) * WIDTH
KINDS = (LANE, SUBGROUP, WORKGROUP)


class Tables:
    """The time stamps of all nodes (releases, acquires, control barriers) of a launch, as trees."""

    def __init__(self, accessors: Accessors):
        self.accessors = accessors
        self.size = WIDTH
        """Capacity of a tree: at least the number of invocations of the launch."""
        while self.size < accessors.count * accessors.per_workgroup:
            self.size *= WIDTH
        self.states: dict[Node | Heard | Gathered, Tree] = {}
        self.columns: dict[bytes, Array] = {}
        self.zeros = self._column(np.zeros((STORAGES, ROWS), np.int64))
        self.steps: dict[Step, int] = {}
        self.changed: dict[tuple[int, int, int], tuple[Tree, Tree]] = {}
        self.origins: dict[int, tuple[Tree, Tree]] = {}
        """
        Maps a changed tree to the tree before the change. If a change is undone, the earlier tree
        is used again.
        """

    def groups(self, lane: int) -> tuple[int, ...]:
        """Returns the codes of an invocation, its subgroup, its workgroup, and the whole launch."""
        return (lane, *self.accessors.wider(lane), SEVERAL)

    def table(self, node: Node) -> Tree:
        """Returns the time stamps after a node, computed from the nodes before it."""
        states, waiting = self.states, list[Node | Heard | Gathered]([node])
        while waiting:
            top = waiting[-1]
            missing = [one for one in _before(top) if one not in states]
            if missing and top not in states:
                waiting += missing
                continue
            waiting.pop()
            if top not in states:
                states[top] = self._compute(top)
        return states[node]

    def _compute(self, node: Node | Heard | Gathered) -> Tree:
        if isinstance(node, Heard):
            before = _rest(node)
            known = EMPTY if before is None else self.states[before]
            storages = _passing(node)
            if not storages:
                return known
            theirs = self.states[node.link.release]
            return self.union(known, self._pass(theirs, storages, node.level))
        if isinstance(node, Gathered):
            known = EMPTY
            for other, one in node.others:
                # An invocation at the barrier makes available everything that it can.
                theirs = self.change(self.states[one], (push, node.semantics), other)
                known = self.union(known, self._pass(theirs, node.semantics.both, node.level))
            return known
        known = EMPTY if node.before is None else self.states[node.before]
        if isinstance(node, Join):
            known = self.union(known, self.states[node.gathered])
            return self.change(known, (pull, node.semantics), node.lane)
        for code, argument in self._local(node.lane, node.local):
            known = self._change_party(known, code, (_add_local, argument))
        if isinstance(node, Release):
            known = self._change_party(known, node.lane, (_add_own, (node.stamp, node.semantics)))
            return self.change(known, (push, node.semantics), node.lane)
        for heard in _taken_over(node):
            known = self.union(known, self.states[heard])
        return self.change(known, (pull, node.semantics), node.lane)

    def _local(self, lane: int, local: Snapshot) -> Iterator[tuple[int, tuple[int, bytes]]]:
        """Yields (group code, (scope level, times)) for an invocation's subgroup and workgroup."""
        if not local.moved:
            return
        subgroup, group = self.accessors.wider(lane)
        w, s = (group & NUMBER) - local.first, (subgroup & NUMBER) % self.accessors.subgroups_each
        yield group, (SAME_WORKGROUP, local.groups[:, :, w].tobytes())
        yield subgroup, (SAME_SUBGROUP, local.near[:, :, w, s].tobytes())

    def _column(self, column: Array) -> Array:
        return self.columns.setdefault(column.tobytes(), column)

    def _number(self, step: Step) -> int:
        return self.steps.setdefault(step, len(self.steps))

    def _pass(self, tree: Tree, storages: int, level: int) -> Tree:
        step = pass_over, (storages, level)
        return self._change_all(tree, level, self._number(step), step)

    def change(self, tree: Tree, step: Step, lane: int) -> Tree:
        """
        Applies a step to all time stamps in a tree. For each invocation and group, the step gets
        the level of the smallest scope that also contains `lane`.
        """
        own = self.accessors
        s, w = lane // own.lanes_each, lane // own.per_workgroup
        lanes = (s * own.lanes_each, (s + 1) * own.lanes_each, SAME_SUBGROUP)
        group = (w * own.per_workgroup, (w + 1) * own.per_workgroup, SAME_WORKGROUP)
        near = (w * own.subgroups_each, (w + 1) * own.subgroups_each, SAME_WORKGROUP)
        bounds = (
            ((lane, lane + 1, SAME_INVOCATION), lanes, group),
            ((s, s + 1, SAME_SUBGROUP), near),
            ((w, w + 1, SAME_WORKGROUP),),
        )
        number = self._number(step)
        parts = zip(tree, bounds, strict=True)
        return _rebuild(tree, [self._change(p, self.size, 0, b, number, step) for p, b in parts])

    def _change(
        self,
        tree: Tree,
        size: int,
        low: int,
        bounds: Sequence[tuple[int, int, int]],
        number: int,
        step: Step,
    ) -> Tree:
        if tree is None:
            return None
        for start, end, level in bounds:
            if start <= low and low + size <= end:
                return self._change_all(tree, level, number, step)
            if low < end and start < low + size:
                break
        else:
            return self._change_all(tree, SAME_DEVICE, number, step)
        size //= WIDTH
        parts = enumerate(tree)
        return self._rebuild(
            tree,
            [
                p if p is None else self._change(p, size, low + k * size, bounds, number, step)
                for k, p in parts
            ],
        )

    def _change_all(self, tree: Tree, level: int, number: int, step: Step) -> Tree:
        """Applies a change to every leaf of a tree, with the same scope level."""
        key = id(tree), level, number
        known = self.changed.get(key)
        if known is None:
            if isinstance(tree, tuple):
                parts: Iterable[Tree] = tree
                made = self._rebuild(
                    tree,
                    [p if p is None else self._change_all(p, level, number, step) for p in parts],
                )
            else:
                column = tree.copy()
                step[0](column, level, step[1])
                made = self._column(column)
            if len(self.changed) > MEMOS:
                self.changed.clear()
                self.origins.clear()
            # The cache stores the tree, too, so that its id is not reused.
            known = self.changed[key] = made, tree
        return known[0]

    def _rebuild(self, tree: Tree, parts: list[Tree]) -> Tree:
        """Returns a tree with these subtrees. Reuses an existing tree where possible."""
        made = _rebuild(tree, parts)
        if made is tree:
            return tree
        origin = self.origins.get(id(tree))
        if origin is not None and all(map(is_, origin[0], made)):
            return origin[0]
        self.origins[id(made)] = tree, made
        return made

    def union(self, a: Tree, b: Tree) -> Tree:
        """Returns the union of two tables: the later time of each entry."""
        if a is b or b is None:
            return a
        if a is None:
            return b
        if not isinstance(a, tuple):
            return self._column(np.maximum(a, b))
        # Most parts are shared or missing. Avoids calls for these.
        parts = [
            x if x is y or y is None else y if x is None else self.union(x, y)
            for x, y in zip(a, b, strict=True)
        ]
        return b if all(map(is_, parts, b)) else _rebuild(a, parts)

    def _change_party(self, tree: Tree, code: int, step: Step) -> Tree:
        parts = list(tree)
        kind = KINDS.index(code & KIND)
        parts[kind] = self._change_in(parts[kind], self.size, code & NUMBER, step)
        return _rebuild(tree, parts)

    def _change_in(self, tree: Tree, size: int, number: int, step: Step) -> Tree:
        if size == 1:
            column = self.zeros if tree is None else tree
            return self._change_all(column, SAME_INVOCATION, self._number(step), step)
        parts, size = list(tree or PARTS), size // WIDTH
        parts[number // size] = self._change_in(parts[number // size], size, number % size, step)
        return _rebuild(tree or PARTS, parts)

    def _row(self, tree: Tree, code: int, storage: int) -> Array:
        if code & KIND == SEVERAL:
            return self.zeros[storage]
        tree, size, number = tree[KINDS.index(code & KIND)], self.size, code & NUMBER
        while size > 1 and tree is not None:
            size //= WIDTH
            tree, number = tree[number // size], number % size
        return self.zeros[storage] if tree is None else tree[storage]

    def row_of(self, table: Tree, code: int, storage: int) -> Array:
        """
        Returns the latest times known for an invocation or group. These are the maximum of its own
        times, the times of the groups around it, and the earliest of its members' times.
        """
        best = self._row(table, code, storage)
        for wider in self.accessors.wider(code):
            best = np.maximum(best, self._row(table, wider, storage))
        members = self.accessors.members(code)
        if members:
            least = np.min([self.row_of(table, one, storage) for one in members], axis=0)
            best = np.maximum(best, least)
        return best


def _rebuild(tree: Tree, parts: list[Tree]) -> Tree:
    return tree if all(map(is_, tree, parts)) else tuple(parts)


# Changes of a party's time stamps (storage, row).


def push(column: Array, level: int, semantics: Semantics) -> None:
    """Updates time stamps at a release: available writes become available to wider scopes."""
    top = semantics.available
    for storage in range(STORAGES):
        if not semantics.release & 1 << storage:
            continue
        rows = column[storage]
        if level >= SAME_SUBGROUP:
            for k in range(level, top + 1):
                rows[row(level, k)] = max(rows[row(level, k)], rows[EXECUTION])
        for m in range(LEVELS):
            for k in range(SAME_WORKGROUP, top + 1):
                rows[row(m, k)] = max(rows[row(m, k)], rows[row(m, k - 1)])


def pull(column: Array, level: int, semantics: Semantics) -> None:
    """Updates time stamps at an acquire: writes that are available to a scope become visible."""
    top = semantics.visible
    for storage in range(STORAGES):
        if not semantics.acquire & 1 << storage:
            continue
        rows = column[storage]
        if SAME_SUBGROUP <= level <= top:
            for k in range(level + 1):
                rows[row(level, k)] = max(rows[row(level, k)], rows[EXECUTION])
        for m in range(LEVELS):
            for k in range(top - 1, -1, -1):
                rows[row(m, k)] = max(rows[row(m, k)], rows[row(m, k + 1)])


def pass_over(column: Array, _: int, how: tuple[int, int]) -> None:
    """Sets to 0 the time stamps that a release does not pass on to an acquiring invocation."""
    storages, level = how
    for storage in range(STORAGES):
        if not storages & 1 << storage:
            column[storage, EXECUTION] = 0
    for m in range(LEVELS):
        column[:, row(m, 0) : row(m, level)] = 0


def _add_own(column: Array, _: int, how: tuple[int, Semantics]) -> None:
    stamp, semantics = how
    column[:, EXECUTION] = stamp
    for storage in range(STORAGES):
        if semantics.release & 1 << storage:
            for k in range(SAME_SUBGROUP, semantics.available + 1):
                column[storage, row(0, k)] = stamp


def _add_local(column: Array, _: int, how: tuple[int, bytes]) -> None:
    level, times = how[0], np.frombuffer(how[1], np.int64).reshape(STORAGES, -1)
    pairs = [
        (EXECUTION, horizons.EXECUTION),
        (row(0, SAME_INVOCATION), horizons.SEEN),
        (row(level, SAME_INVOCATION), horizons.VISIBLE),
    ]
    pairs += [(row(0, k), horizons.AVAILABLE) for k in range(SAME_SUBGROUP, level + 1)]
    for number, kind in pairs:
        column[:, number] = np.maximum(column[:, number], times[:, kind])


# Predecessors of a node.


def _passing(node: Heard) -> int:
    """Returns a mask of the storage kinds for which a release synchronizes with an acquire."""
    semantics = node.link.release.semantics
    if node.level > min(semantics.scope, node.scope):
        return 0
    return semantics.release & node.acquire


def _rest(node: Heard) -> Heard | None:
    """
    Returns the earlier releases that an acquire observes besides the acquired one. Returns None if
    the acquired release includes them.
    """
    link = node.link.before[node.level]
    if link is None or _covers(node.link, node.acquire):
        return None
    return Heard(link, node.level, node.acquire, node.scope)


def _covers(link: Link, acquire: int) -> bool:
    """True if a release includes all earlier releases of its sequence."""
    own, semantics = link.release.before, link.release.semantics
    return (
        isinstance(own, Acquire)
        and own.heads[-1] is link.before[-1]
        and own.semantics.scope == SAME_DEVICE == semantics.scope
        and not semantics.release & acquire & ~own.semantics.acquire
        and semantics.available in (SAME_INVOCATION, SAME_DEVICE)
    )


def _taken_over(node: Acquire) -> list[Heard]:
    """Returns the releases that an acquire observes, by level, without redundant ones."""
    acquire, scope = node.semantics.acquire, node.semantics.scope
    heard = [Heard(link, k, acquire, scope) for k, link in enumerate(node.heads) if link]
    last = heard[-1].link
    if last.before[-1] is None or _covers(last, acquire):
        return [next(one for one in heard if one.link is last)]
    return heard


def _before(node: Node | Heard | Gathered) -> list[Node | Heard | Gathered]:
    if isinstance(node, Gathered):
        return [one for _, one in node.others]
    nodes: list[Node | Heard | Gathered] = []
    if isinstance(node, Heard):
        rest = _rest(node)
        if rest is not None:
            nodes.append(rest)
        return [*nodes, node.link.release] if _passing(node) else nodes
    if node.before is not None:
        nodes.append(node.before)
    if isinstance(node, Acquire):
        nodes += _taken_over(node)
    if isinstance(node, Join):
        nodes.append(node.gathered)
    return nodes
