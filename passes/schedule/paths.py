"""
Records the path of each operation, the reasons against faster paths, and the user's limits.

A path is the way in which a kernel computes an operation. Code that decides on a path records the
reasons in `Decisions`. `assign-schedule` writes them to the operations, and `explain` reads them.
The explanation therefore matches the decision. `Limits` forbid paths for some layers (`--only` and
`--except`), to bisect errors.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.dialects.places import labels_of
from xdsl_spirv.dialects.schedule import CONSIDERED, ConsideredAttr, DispatchOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import typical
from xdsl_spirv.passes.analysis.target import TargetPass

if TYPE_CHECKING:
    from xdsl_spirv.passes.analysis.contraction import Contraction
    from xdsl_spirv.targets import Target

COOPERATIVE_MATRIX, ROTATE, ROWS = "cooperative-matrix", "rotate", "rows"
DOT, FMA = "dot", "fma"

PATHS = (COOPERATIVE_MATRIX, ROTATE, ROWS, DOT, FMA)
"""Paths that compute products, the fastest first."""

TILED = (COOPERATIVE_MATRIX, DOT, FMA)
"""Paths that multiply tiles."""

LAYOUT = "layout"
"""Name under which `choose-layouts` records its decisions; not a path of a kernel."""

COMPUTED = "computed keys"
"""Name under which `form-attention` records why keys and values are computed separately."""

LOOPS, PACK, ATTENTION = "loops", "pack", "attention"
"""Paths of other kernels than contractions: elementwise loops, packing, attention."""


def no_few_rows(contraction: Contraction, target: Target) -> str:
    """Returns why a contraction's sizes do not allow the path `rows`; "" if they do."""
    if target.processor and not target.properties_for(contraction.types):
        # A CPU caches operands; staging would only cost copies and barriers.
        return ""
    few, many = sorted((typical(contraction.m), typical(contraction.n)))
    model, on_matrices = target.model.rows, target.properties_for(contraction.types)
    unrated = on_matrices and target.measured_copy is None and not target.processor
    most = model.few_for_matrices if unrated else model.few
    if few > most:
        return f"the result has {few} rows, but this path supports at most {most} on {target.name}"
    if few > 1 and many < model.much * few:
        return f"with {few} x {many} results, no operand is much larger than the other"
    return ""


def why_rows(contraction: Contraction, target: Target) -> str:
    """Returns the reason for choosing the path `rows`."""
    if min(typical(contraction.m), typical(contraction.n)) <= target.model.rows.few:
        return "the result has few rows: the larger operand is streamed once"
    return "on a CPU each lane reads its columns, and all lanes read the rows, without staging"


def no_matrices(contraction: Contraction, target: Target) -> str:
    """Returns an error text if the target has no matrices for the contraction's types, else ""."""
    types = contraction.types
    if target.properties_for(types):
        return ""
    known = sorted({f"{p.a} x {p.b} -> {p.result}" for p in target.cooperative_matrix})
    return (
        f"CM-29: {target.name} has no cooperative matrices of {types[0]} x {types[1]} -> "
        f"{types[2]}; it has {', '.join(known) or 'none'}"
    )


def no_window(contraction: Contraction, target: Target) -> str:
    """Returns why a contraction's sizes do not allow the path `window`; "" if they do."""
    if contraction.batch == 1:
        return "not a depthwise convolution: there is no batch of channels"
    if typical(contraction.m) > (most := target.model.window.most_filters):
        return (
            f"{contraction.m} rows for each batch fill tiles: windows are faster up to {most} rows"
        )
    return ""


BF16X3 = "bf16x3"
"""Name of the arithmetic that computes a product of f32 by three products of bf16 parts."""


@dataclass(frozen=True)
class Limits:
    """
    The user's limits of paths, as texts `PATH=PATTERN`.

    `only` allows a path for matching layers only; `barred` forbids it for matching layers. A
    pattern is a node's name, or has wildcards. Raises `DiagnosticException` for malformed texts.
    """

    only: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    allowed: str = ""
    """Reduced precision that the user allows for f32 products: `bf16x3` or ""."""

    def __post_init__(self) -> None:
        if self.allowed not in ("", BF16X3):
            raise DiagnosticException(
                f"unknown arithmetic {self.allowed!r} for products of f32: write {BF16X3}"
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
        """Returns why the limits forbid a path for an operation; None if they allow it."""
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
        """Returns the patterns that match no layer."""
        patterns = [limit.partition("=")[2] for limit in (*self.only, *self.barred)]
        return [pattern for pattern in patterns if not _matches(pattern, labels)]


@dataclass(frozen=True, kw_only=True)
class LimitedPass(TargetPass, ABC):
    """A pass that chooses paths within the user's limits."""

    only: tuple[str, ...] = ()
    """Allows a kind of kernel (a path, such as `fma`) only for matching layers: PATH=PATTERN."""

    barred: tuple[str, ...] = ()
    """Forbids a kind of kernel (a path, such as `fma`) for matching layers: PATH=PATTERN."""

    @property
    def limits(self) -> Limits:
        """The limits from the pass options."""
        return Limits(self.only, self.barred)


UNLIMITED = Limits()
"""Limits that allow every path for every layer."""


def _patterns(limits: Sequence[str], path: str) -> list[str]:
    return [limit.partition("=")[2] for limit in limits if limit.startswith(f"{path}=")]


def _matches(pattern: str, labels: Collection[str]) -> bool:
    return pattern in labels or any(fnmatchcase(label, pattern) for label in labels)


def considered_before(op: Operation) -> list[ConsideredAttr]:
    """Returns the decisions that are recorded on an operation."""
    known = op.attributes.get(CONSIDERED)
    entries = known.data if isinstance(known, ArrayAttr) else ()
    return [entry for entry in entries if isinstance(entry, ConsideredAttr)]


def note_before_schedules(
    op: Operation | Block, path: str, reason: str, taken: bool = False
) -> None:
    """
    Records the decision of a pass that runs before `assign-schedule`, directly on an operation.
    """
    if isinstance(op, Operation):
        entries = [*considered_before(op), ConsideredAttr(path, taken, reason)]
        op.attributes[CONSIDERED] = ArrayAttr(entries)


@dataclass
class Decisions:
    """Records the paths that were considered for operations, in order."""

    limits: Limits = UNLIMITED
    considered: dict[Operation, dict[ConsideredAttr, None]] = field(
        default_factory=dict[Operation, dict[ConsideredAttr, None]]
    )

    def note(self, op: Operation, path: str, reason: str, taken: bool = False) -> None:
        """Records that a path was considered for an operation, and why it was taken or not."""
        own = self.considered.setdefault(op, dict.fromkeys(considered_before(op)))
        own.setdefault(ConsideredAttr(path, taken, reason))

    def bars(self, op: Operation, path: str) -> bool:
        """True if the limits forbid a path for an operation; records the reason."""
        reason = self.limits.against(path, op)
        if reason is not None:
            self.note(op, path, reason)
        return reason is not None

    def repeat(self, op: Operation, other: Operation) -> None:
        """Copies the decisions on operation `other` to `op`."""
        self.considered[op] = self.considered.get(other, {})

    def write(self) -> None:
        """Writes the decisions to the operations as attributes."""
        for op, entries in self.considered.items():
            op.attributes[CONSIDERED] = ArrayAttr(dict.fromkeys((*considered_before(op), *entries)))
