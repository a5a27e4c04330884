"""
Which path each operation takes, why not a faster one, and which paths somebody has barred.

The code that decides writes its reasons down as it decides, while a `Decisions` is open, so that
what `explain` shows cannot drift from what was done. A `Limits` that is open bars paths for some
layers: `--only` and `--except`, to bisect.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.schedule import ContractionAttr, DispatchOp, WindowAttr
from xdsl_spirv.passes.locations import labels_of

COOPERATIVE_MATRIX, ROTATE, DOT, FMA = "cooperative-matrix", "rotate", "dot", "fma"

PATHS = (COOPERATIVE_MATRIX, ROTATE, DOT, FMA)
"""What may multiply, the fastest first."""

LOOPS, PACK, ATTENTION = "loops", "pack", "attention"
"""What is no contraction, a copy of an operand into fragments, and a whole attention at once."""

KINDS = {"coopmat": COOPERATIVE_MATRIX, "dot": DOT, "fma": FMA}


def path_of(schedule: Attribute) -> str | None:
    """The path that a contraction's schedule stands for."""
    if isinstance(schedule, WindowAttr):
        return ROTATE
    return (
        KINDS.get(schedule.instruction.kind.data) if isinstance(schedule, ContractionAttr) else None
    )


@dataclass(frozen=True)
class Considered:
    """A path that was looked at: whether it was taken, and why or why not."""

    path: str
    taken: bool
    reason: str


@dataclass
class Decisions:
    """The paths that were considered for each operation, in the order of their consideration."""

    of: dict[Operation, list[Considered]] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """
    For each path the patterns of the layers that alone may take it (`only`), or may not (`barred`).

    A pattern is a node's name, or has wildcards.
    """

    only: Mapping[str, Collection[str]] = field(default_factory=dict)
    barred: Mapping[str, Collection[str]] = field(default_factory=dict)

    def against(self, path: str, op: Operation) -> str | None:
        """Why an operation may not take a path, if it may not."""
        if path not in self.only and path not in self.barred:
            return None
        dispatch = op.parent_op()
        labels = labels_of(dispatch if isinstance(dispatch, DispatchOp) else op)
        if path in self.only and not any(_matches(p, labels) for p in self.only[path]):
            return f"barred: --only {path}={','.join(self.only[path])}"
        if path in self.barred and any(_matches(p, labels) for p in self.barred[path]):
            return f"barred: --except {path}={','.join(self.barred[path])}"
        return None

    def unmet(self, labels: Collection[str]) -> list[str]:
        """The patterns that match none of all layers' names."""
        given = [p for each in (self.only, self.barred) for group in each.values() for p in group]
        return [pattern for pattern in given if not _matches(pattern, labels)]


def _matches(pattern: str, labels: Collection[str]) -> bool:
    return pattern in labels or any(fnmatchcase(label, pattern) for label in labels)


_decisions: ContextVar[Decisions | None] = ContextVar("decisions", default=None)
_limits: ContextVar[Limits | None] = ContextVar("limits", default=None)


@contextmanager
def recorded() -> Generator[Decisions]:
    """Within it decisions are written down."""
    found = Decisions()
    token = _decisions.set(found)
    try:
        yield found
    finally:
        _decisions.reset(token)


@contextmanager
def limited(limits: Limits | None) -> Generator[None]:
    """Within it these limits hold."""
    token = _limits.set(limits)
    try:
        yield
    finally:
        _limits.reset(token)


def note(op: Operation, path: str, reason: str, taken: bool = False) -> None:
    """Write a decision down, if somebody wants to know."""
    decisions = _decisions.get()
    if decisions is None:
        return
    entry = Considered(path, taken, reason)
    noted = decisions.of.setdefault(op, [])
    if entry not in noted:
        noted.append(entry)


def note_alike(op: Operation, other: Operation) -> None:
    """Write down for an operation what was decided for another one."""
    decisions = _decisions.get()
    if decisions is not None and other in decisions.of:
        decisions.of[op] = list(decisions.of[other])


def are_limited() -> bool:
    """Whether limits hold: then what is alike may be called otherwise, and decided otherwise."""
    return _limits.get() is not None


def barred(op: Operation, path: str) -> bool:
    """Whether somebody has barred a path for an operation; that is then written down."""
    limits = _limits.get()
    reason = limits.against(path, op) if limits is not None else None
    if reason is not None:
        note(op, path, reason)
    return reason is not None
