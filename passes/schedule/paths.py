"""
The path of each operation, the reasons against faster ones, and paths that the user has barred.

The code that decides writes its reasons down as it decides, in `Decisions`, and `assign-schedule`
puts them on the operations, where `explain` reads them. So the explanation cannot drift from the
decision. `Limits` bar paths for some layers: `--only` and `--except`, to bisect.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.dialects.places import labels_of
from xdsl_spirv.dialects.schedule import CONSIDERED, ConsideredAttr, DispatchOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import typical

if TYPE_CHECKING:
    from xdsl_spirv.passes.analysis.contraction import Contraction
    from xdsl_spirv.targets import Target

COOPERATIVE_MATRIX, ROTATE, ROWS = "cooperative-matrix", "rotate", "rows"
DOT, FMA = "dot", "fma"

PATHS = (COOPERATIVE_MATRIX, ROTATE, ROWS, DOT, FMA)
"""The paths that may multiply, the fastest first."""

TILED = (COOPERATIVE_MATRIX, DOT, FMA)
"""The paths that multiply tiles."""

LAYOUT = "layout"
"""Not a path of a kernel: under this name `choose-layouts` records its decisions."""

COMPUTED = "computed keys"
"""As `LAYOUT`, for why `form-attention` has keys and values computed before their attention."""

LOOPS, PACK, ATTENTION = "loops", "pack", "attention"
"""Paths without a product: loops, packing an operand, and a whole attention."""


def no_few_rows(contraction: Contraction, target: Target) -> str:
    """The reason why a contraction does not have few rows, by its sizes alone; empty if it has."""
    if target.processor and not target.properties_for(contraction.types):
        # It caches what it reads; staging costs it copies and barriers.
        return ""
    few, many = sorted((typical(contraction.m), typical(contraction.n)))
    model, on_matrices = target.model.rows, target.properties_for(contraction.types)
    unrated = on_matrices and target.measured_copy is None and not target.processor
    most = model.few_for_matrices if unrated else model.few
    if few > most:
        return f"the result has {few} rows; this path takes at most {most} on {target.name}"
    if few > 1 and many < model.much * few:
        return f"{few} x {many} results: no operand is much larger than the other"
    return ""


def why_rows(contraction: Contraction, target: Target) -> str:
    """Returns the reason for a schedule of rows, by the sizes of a contraction alone."""
    if min(typical(contraction.m), typical(contraction.n)) <= target.model.rows.few:
        return "few rows of the result: the other operand is read once, as a stream"
    return "a processor: lanes read columns, and all of them the rows, without staging"


def no_matrices(contraction: Contraction, target: Target) -> str:
    """Says that a target has no cooperative matrices of a contraction's types; "" if it has."""
    types = contraction.types
    if target.properties_for(types):
        return ""
    known = sorted({f"{p.a} x {p.b} -> {p.result}" for p in target.cooperative_matrix})
    return (
        f"CM-29: {target.name} has no cooperative matrices of {types[0]} x {types[1]} -> "
        f"{types[2]}; it has {', '.join(known) or 'none'}"
    )


def no_window(contraction: Contraction, target: Target) -> str:
    """
    The reason why a contraction is not a depthwise convolution, by its sizes alone; empty if it is
    one.
    """
    if contraction.batch == 1:
        return "no depthwise convolution: there is no channel by itself"
    if typical(contraction.m) > (most := target.model.window.most_filters):
        return f"{contraction.m} rows for each batch fill tiles: windows pay up to {most}"
    return ""


BF16X3 = "bf16x3"
"""Products of f32 as three of bf16 parts."""


@dataclass(frozen=True)
class Limits:
    """
    Limits of paths: which layers alone may take one (`only`), and which may not (`barred`), as
    `PATH=PATTERN`.

    A pattern is a node's name, or has wildcards. Raises `DiagnosticException` for other texts.
    """

    only: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    allowed: str = ""
    """The arithmetic that the caller allows for products of f32: `bf16x3`, or none but f32."""

    def __post_init__(self) -> None:
        if self.allowed not in ("", BF16X3):
            raise DiagnosticException(
                f"{self.allowed!r} is not an arithmetic for products of f32: write {BF16X3}"
            )
        for limit in (*self.only, *self.barred):
            path, _, pattern = limit.partition("=")
            if path not in PATHS or not pattern:
                raise DiagnosticException(
                    f"{limit!r} names no layers for a path: write {PATHS[0]}=LAYER (* stands for "
                    f"anything); the paths are {', '.join(PATHS)}"
                )

    def __bool__(self) -> bool:
        return bool(self.only or self.barred)

    def against(self, path: str, op: Operation) -> str | None:
        """Returns why the limits bar an operation from a path; None if they do not."""
        only, barred = _patterns(self.only, path), _patterns(self.barred, path)
        if not only and not barred:
            return None
        dispatch = op.parent_op()
        labels = labels_of(dispatch if isinstance(dispatch, DispatchOp) else op)
        if only and not any(_matches(pattern, labels) for pattern in only):
            return f"barred: --only {path}={','.join(only)}"
        if any(_matches(pattern, labels) for pattern in barred):
            return f"barred: --except {path}={','.join(barred)}"
        return None

    def unmet(self, labels: Collection[str]) -> list[str]:
        """Returns the patterns that match no layer's name."""
        patterns = [limit.partition("=")[2] for limit in (*self.only, *self.barred)]
        return [pattern for pattern in patterns if not _matches(pattern, labels)]


@dataclass(frozen=True, kw_only=True)
class LimitedPass(ModulePass, ABC):
    """A pass that chooses paths of layers within limits."""

    only: tuple[str, ...] = ()
    """Allows a path only for the layers that match: PATH=PATTERN."""

    barred: tuple[str, ...] = ()
    """Forbids a path for the layers that match: PATH=PATTERN."""

    @property
    def limits(self) -> Limits:
        """The limits that the options say."""
        return Limits(self.only, self.barred)


UNLIMITED = Limits()
"""Every layer may take every path."""


def _patterns(limits: Sequence[str], path: str) -> list[str]:
    """The patterns of the limits on one path."""
    return [limit.partition("=")[2] for limit in limits if limit.startswith(f"{path}=")]


def _matches(pattern: str, labels: Collection[str]) -> bool:
    return pattern in labels or any(fnmatchcase(label, pattern) for label in labels)


def considered_before(op: Operation) -> list[ConsideredAttr]:
    """Returns the notes on an operation."""
    known = op.attributes.get(CONSIDERED)
    entries = known.data if isinstance(known, ArrayAttr) else ()
    return [entry for entry in entries if isinstance(entry, ConsideredAttr)]


def note_before_schedules(
    op: Operation | Block, path: str, reason: str, taken: bool = False
) -> None:
    """Record on an operation why a pass before assign-schedule took a path for it or did not."""
    if isinstance(op, Operation):
        entries = [*considered_before(op), ConsideredAttr(path, taken, reason)]
        op.attributes[CONSIDERED] = ArrayAttr(entries)


@dataclass
class Decisions:
    """The paths that were considered for operations within limits, in order."""

    limits: Limits = UNLIMITED
    considered: dict[Operation, list[ConsideredAttr]] = field(
        default_factory=dict[Operation, list[ConsideredAttr]]
    )

    def note(self, op: Operation, path: str, reason: str, taken: bool = False) -> None:
        """Record that a path was considered for an operation, and why it was taken or not."""
        entry = ConsideredAttr(path, taken, reason)
        if op not in self.considered:
            self.considered[op] = list(considered_before(op))
        entries = self.considered[op]
        if entry not in entries:
            entries.append(entry)

    def bars(self, op: Operation, path: str) -> bool:
        """Whether the limits bar a path for an operation; the reason is recorded."""
        reason = self.limits.against(path, op)
        if reason is not None:
            self.note(op, path, reason)
        return reason is not None

    def repeat(self, op: Operation, other: Operation) -> None:
        """Copies the recorded decisions for one operation to another."""
        self.considered[op] = self.considered.get(other, [])

    def write(self) -> None:
        """Write the recorded decisions to the operations as attributes."""
        for op, entries in self.considered.items():
            op.attributes[CONSIDERED] = ArrayAttr(dict.fromkeys((*considered_before(op), *entries)))
