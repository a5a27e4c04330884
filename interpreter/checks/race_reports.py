"""Writes the finding for a race: the rule, the two accesses, and the remedy."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.cooperative_matrix import (
    CooperativeMatrixLoadOp,
    CooperativeMatrixStoreOp,
)
from xdsl_spirv.interpreter.checks.accesses import Access, Conflicts
from xdsl_spirv.interpreter.checks.accessors import IDENTITY, KIND, LANE, WHO, Accessors
from xdsl_spirv.interpreter.checks.findings import Findings
from xdsl_spirv.interpreter.checks.history import LAST_READS, OTHER_READS, Region
from xdsl_spirv.interpreter.checks.knowledge import Failure, Knowledge
from xdsl_spirv.interpreter.checks.memory_model import Facts, MemoryModel
from xdsl_spirv.interpreter.checks.places import relate
from xdsl_spirv.interpreter.checks.report import Related
from xdsl_spirv.interpreter.numbers import Array

ORDERED, OPEN, HIDDEN, KEPT_PRIVATE, NARROW = range(5)
"""
Verdicts on a pair of accesses. `OPEN`: not ordered. `HIDDEN`: ordered, but the write is not
available or visible. `KEPT_PRIVATE`: ordered, but private. `NARROW`: atomics whose scope is too
small.
"""


class Order(Protocol):
    """Interface of a launch's race check (races.py) that the reports use."""

    checker: Findings
    model: MemoryModel
    accessors: Accessors
    knowledge: Knowledge
    facts: list[Facts | None]
    log: list[Operation | None]
    passed: list[tuple[int, Operation]]


BARRIER_REMEDY = (
    "give the barrier a scope that contains both invocations, AcquireRelease with the memory's "
    "storage class, MakeAvailable and MakeVisible"
)
KINDS = {
    "open": (
        "RACE-01",
        "a {} and an earlier {} of {} are not ordered",
        "put a barrier between them, or use atomics",
    ),
    "past": (
        "RACE-03",
        "a {} and an earlier {} of {} are not ordered by the barrier between them",
        BARRIER_REMEDY,
    ),
    "unmet": (
        "RACE-03",
        "a {} and an earlier {} of {} are not ordered by the atomics between them",
        "give both atomics a scope with both invocations, and semantics with the storage class",
    ),
    "hidden": (
        "RACE-03",
        (
            "a {} and an earlier {} of {} are ordered, but no barrier or access makes the "
            "written value available and visible to both"
        ),
        "make the write available and the read visible for a scope with both invocations, or let "
        "barriers or atomics between them do so (MakeAvailable and MakeVisible)",
    ),
    "private": (
        "RACE-02",
        "a {} and an earlier {} of {} are ordered, but one of them is private",
        "access shared memory with NonPrivatePointer (in GLSL: declare the variable coherent)",
    ),
    "plain": (
        "RACE-03",
        "a {} and an earlier {} of {} are ordered, but the buffer is not coherent",
        "declare the buffer coherent",
    ),
    "narrow": (
        "RACE-03",
        (
            "a {} and an earlier {} of {} are atomic, but their scopes do not contain both "
            "invocations"
        ),
        "give the atomics a scope that contains all invocations that use the location",
    ),
    "together": (
        "RACE-01",
        "several invocations write one location of {2} in the same instruction",
        "put a barrier between them, or use atomics",
    ),
}
"""Maps a kind of race to its rule, message and remedy."""
NAMES = {OPEN: "open", HIDDEN: "hidden", KEPT_PRIVATE: "private", NARROW: "narrow"}


class RaceReports:
    """Creates findings from conflicting accesses."""

    def __init__(self, races: Order):
        self.races = races
        self.checker = races.checker
        self._known: dict[Operation, str] = {}

    def repeats(self, op: Operation) -> bool:
        """
        True if an instruction already has a finding. In this case, also counts the repetition.
        """
        rule = self._known.get(op)
        return rule is not None and self.checker.report.seen(rule, op)

    def together(self, region: Region, access: Access, conflicts: Conflicts, index: Array) -> None:
        """Reports invocations that write the same location in one instruction."""
        if self.repeats(access.op):
            return
        self._find(region, access, conflicts, "together", _is_one_value(access, index))

    def conflicts(
        self, region: Region, access: Access, facts: Facts, conflicts: Conflicts, verdicts: Array
    ) -> None:
        """Reports pairs of accesses that race according to `verdicts`."""
        kept = verdicts != ORDERED
        if not kept.any():
            return
        for verdict in (OPEN, NARROW, HIDDEN, KEPT_PRIVATE):
            chosen = conflicts.pick(verdicts == verdict)
            first = self._first(access, chosen)
            if first is None:
                continue
            name = NAMES[verdict]
            earlier = self.races.facts[int(chosen.earlier[first]) >> 32]
            if verdict == HIDDEN and (facts.plain or (earlier is not None and earlier.plain)):
                name = "plain"
            same = conflicts.which == "writes" and _is_held(access, chosen.where)
            self._find(region, access, chosen, name, same)
            return

    def aliases(
        self,
        region: Region,
        access: Access,
        facts: Facts,
        which: str,
        index: Array,
        who: Array,
        earlier: Array,
    ) -> None:
        """
        Reports an access through one variable to memory that was accessed through another variable,
        although the variables must not alias (ALIAS-01).
        """
        if self.repeats(access.op) or facts.variable is None:
            return
        stamps = earlier >> 32
        for stamp in np.unique(stamps):
            if not stamp:
                continue
            other = self.races.facts[int(stamp)]
            if other is not None and self._may_not_alias(facts.variable, other.variable, which):
                conflicts = Conflicts(which, stamps == stamp, index, who, earlier)
                self._find_alias(region, access, conflicts, facts.variable, other.variable or "")
                return

    def _may_not_alias(self, variable: str, other: str | None, which: str) -> bool:
        if other is None or other == variable:
            return False
        model = self.races.model
        if which == "reads":
            return model.is_restricted(variable) or model.is_restricted(other)
        return not (model.is_aliased(variable) and model.is_aliased(other))

    def _find_alias(
        self, region: Region, access: Access, conflicts: Conflicts, variable: str, other: str
    ) -> None:
        self._known[access.op] = "ALIAS-01"
        kinds = self._kinds(access, conflicts)
        restricted = [
            f"@{name}" for name in (variable, other) if self.races.model.is_restricted(name)
        ]
        why = (
            f"{' and '.join(restricted)} {'are' if len(restricted) > 1 else 'is'} declared restrict"
            if restricted
            else "neither is declared to alias"
        )
        first = tuple(int(n) for n in np.argwhere(conflicts.earlier != 0)[0])
        self.checker.find(
            "ALIAS-01",
            access.op,
            f"a {kinds[0]} through @{variable} reaches the same memory as an earlier "
            f"{kinds[1]} through @{other}, and {why}",
            where=self._where(conflicts),
            notes=lambda: self._notes(access, region, conflicts, first[0], None),
            remedy="bind different memory, use one variable, or decorate both with Aliased",
        )

    def _kinds(self, access: Access, conflicts: Conflicts) -> tuple[str, str]:
        return (
            "write" if access.write else "read",
            "write" if conflicts.which == "writes" else "read",
        )

    def _where(self, conflicts: Conflicts) -> Array:
        return self.races.accessors.are_in(conflicts.who & IDENTITY)

    def _find(
        self, region: Region, access: Access, conflicts: Conflicts, name: str, same: bool
    ) -> None:
        first = self._first(access, conflicts)
        if first is None:
            return
        barrier = self._barrier(conflicts, first) if name in ("open", "hidden") else None
        failure = self._failure(conflicts, first) if name == "open" else None
        if name == "open":
            name = "past" if barrier is not None else "open" if failure is None else "unmet"
        rule, text, remedy = KINDS[name]
        self._known[access.op] = rule
        label = access.memory.label
        message = text.format(*self._kinds(access, conflicts), label)
        if same:
            message += (
                ", all the same value" if name == "together" else "; both write the same value"
            )
        self.checker.find(
            rule,
            access.op,
            message,
            where=self._where(conflicts),
            notes=lambda: self._notes(access, region, conflicts, first, barrier),
            remedy=remedy,
        )

    def _first(self, access: Access, conflicts: Conflicts) -> int | None:
        """
        Returns the index of the first conflict that is not between accesses to one matrix. Returns
        None if there is none.
        """
        for number in range(min(conflicts.earlier.size, 64)):
            if not self._is_one_matrix(access, conflicts, number):
                return number
        return None

    def _is_one_matrix(self, access: Access, conflicts: Conflicts, number: int) -> bool:
        """
        True if one subgroup (or workgroup) makes both accesses, and both access the same type of
        matrix.
        """
        earlier, who = int(conflicts.earlier[number]), int(conflicts.who[number])
        other = self.races.log[earlier >> 32]
        matrix = other is not None and matrix_type(other)
        same = (earlier ^ who) & IDENTITY == 0
        return bool(matrix) and matrix == matrix_type(access.op) and same

    def _barrier(self, conflicts: Conflicts, first: int) -> Operation | None:
        """Returns a barrier that both invocations passed between their accesses, or None."""
        stamp = int(conflicts.earlier[first]) >> 32
        codes = np.array([int(conflicts.who[first]), int(conflicts.earlier[first]) & WHO])
        groups = self.races.accessors.group_of(codes)
        if groups[0] != groups[1]:
            return None
        return next((op for t, op in self.races.passed if t > stamp), None)

    def _other(self, region: Region, conflicts: Conflicts, first: int) -> int:
        word, place = int(conflicts.earlier[first]), int(conflicts.index[first])
        if conflicts.which != "reads" or word & KIND == LANE or LAST_READS not in region.words:
            return word
        last = int(region.words[LAST_READS][place])
        if last >> 32 != word >> 32:
            return word
        if (last ^ int(conflicts.who[first])) & IDENTITY:
            return last
        other = int(region.words_of(OTHER_READS)[place])
        stale = any(other >> 32 < time < word >> 32 for time, _ in self.races.passed)
        return word if not other or stale else other

    def _failure(self, conflicts: Conflicts, first: int) -> Failure | None:
        """Returns the atomics whose missing synchronization causes the race, or None."""
        codes = np.array([int(conflicts.earlier[first]) & WHO, int(conflicts.who[first])])
        earlier, later = self.races.accessors.group_of(codes).tolist()
        return self.races.knowledge.failure_between(earlier, later)

    def _notes(
        self, access: Access, region: Region, conflicts: Conflicts, first: int, barrier: Any
    ) -> list[Related]:
        races = self.races
        word = self._other(region, conflicts, first)
        other = races.log[word >> 32]
        assert other is not None
        byte = int(conflicts.index[first]) % region.length * region.granule
        spot = self.checker.spot(access.memory, byte - access.offset)
        by = races.accessors.name(word & WHO)
        notes = [relate("the other access", other, f"by {by}", head=spot)]
        failure = self._failure(conflicts, first)
        if barrier is not None:
            notes.append(relate("the barrier", barrier))
        elif failure is not None:
            notes.append(
                relate("the atomics that do not synchronize", failure.release, failure.why)
            )
            notes.append(relate("with", failure.acquire))
        return notes


def matrix_type(op: Operation) -> Any:
    """Returns the matrix type that an instruction loads or stores, or None."""
    if isinstance(op, CooperativeMatrixLoadOp):
        return op.result.type
    return op.object.type if isinstance(op, CooperativeMatrixStoreOp) else None


def _octets(access: Access, raw: Array) -> Array:
    lead, chosen, _ = access.layout
    full = np.broadcast_to(raw, lead + raw.shape[3:])
    flat = full.reshape(-1, *raw.shape[3:]) if chosen is None else full[chosen]
    return np.ascontiguousarray(flat).reshape(flat.shape[0], -1).view(np.uint8)


def _is_held(access: Access, where: Array) -> bool:
    """
    True if a store writes the values that the memory already has, for the elements selected by
    `where`.
    """
    if access.new is None or access.old is None:
        return False
    rows = where.reshape(where.shape[0], -1).any(axis=1)
    new, old = _octets(access, access.new()), _octets(access, access.old())
    return bool((new[rows] == old[rows]).all())


def _is_one_value(access: Access, index: Array) -> bool:
    """True if all invocations that write a location write equal values."""
    if access.new is None:
        return False
    first = index.reshape(len(index), -1)[:, 0]
    order = np.argsort(first, kind="stable")
    octets = _octets(access, access.new())[order]
    gaps = np.diff(first[order])
    if ((gaps > 0) & (gaps < index[0].size)).any():
        return False
    return bool((octets[1:] == octets[:-1]).all(axis=1)[gaps == 0].all())
