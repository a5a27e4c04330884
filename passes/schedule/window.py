"""
Plans a contraction over sliding windows: the sliding loop and the distribution to subgroups.

The result's last loop slides over the last dimension of B, the input, with step 1, and one loop of
K indexes the window there: X[..., w + dilation * k]. A subgroup computes a *segment* of a result
row, one element per invocation. All other parallel loops are *tasks*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from xdsl.ir.affine import AffineDimExpr

from xdsl_spirv.dialects.schedule import WindowAttr, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import static, surely_below, typical
from xdsl_spirv.passes.analysis.contraction import Contraction, packing_of, shape_of, storage
from xdsl_spirv.passes.analysis.layout import RowMajor
from xdsl_spirv.passes.schedule.kinds import ContractionPlan
from xdsl_spirv.passes.schedule.plan import ceil_div
from xdsl_spirv.targets import Target

FEATURE = "subgroup-rotate"
TYPES = ("f16", "f32", "s8", "u8", "s16", "u16", "s32", "u32")
"""Element types that kernels can extend to the result's type; bfloat16 is not supported."""


def seconds_of_taps(contraction: Contraction, target: Target, more: float = 0) -> float:
    """Estimates the seconds to read windows from the cache, plus `more` elements per result."""
    results = typical(contraction.batch * contraction.m * contraction.n)
    size = bit_width(contraction.element_types[0]) / 8 / target.copy_bytes_per_second
    return results * (typical(contraction.k) / target.model.window.cached + more) * size


@dataclass(frozen=True)
class WindowPlan(ContractionPlan[WindowAttr]):
    """A contraction with its window schedule on a target."""

    @cached_property
    def operands(self) -> tuple[RowMajor, RowMajor, RowMajor]:
        """Memory layouts of the filters, the input and the result."""
        own = self.contraction
        stored = storage(own.a), storage(own.b), (own.init, None)
        a, b, result = (
            RowMajor.read(map, len(own.sizes), static(shape_of(value)), low)
            for map, (value, low) in zip(own.maps, stored, strict=True)
        )
        return a, b, result

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of all loops; a window schedule needs static sizes."""
        return static(self.contraction.sizes)

    @property
    def sliding(self) -> int:
        """Index of the sliding loop, which is the last loop of the result."""
        last = self.contraction.maps[2].results[-1]
        assert isinstance(last, AffineDimExpr)
        return last.position

    @property
    def window(self) -> int | None:
        """Index of K's loop along the window; None if no single loop indexes the window."""
        factors = self.operands[1].indices[-1].factors
        loops = [loop for loop in self.contraction.groups[3] if factors[loop]]
        return loops[0] if len(loops) == 1 else None

    @property
    def dilation(self) -> int:
        assert self.window is not None
        return self.operands[1].indices[-1].factors[self.window]

    @property
    def width(self) -> int:
        """Number of elements in a window's row."""
        assert self.window is not None
        return self.sizes[self.window]

    @property
    def reach(self) -> int:
        """Distance from the first to the last element of a window's row."""
        return self.dilation * (self.width - 1)

    @property
    def row(self) -> int:
        """Number of results in a row."""
        return self.sizes[self.sliding]

    @property
    def segments(self) -> int:
        return ceil_div(self.row, self.target.subgroup_size)

    def spills(self, distance: int) -> bool:
        """True if an element and the element `distance` after it may be in different subgroups."""
        beyond = self.segments > 1 or self.row > self.target.subgroup_size - distance
        return distance > 0 and beyond

    @property
    def selects(self) -> bool:
        """True if windows may reach beyond the input elements of one subgroup."""
        _, row, _ = self.operands
        first = row.indices[-1].start + self.target.subgroup_size
        inside = self.segments > 1 or surely_below(first, row.shape[-1])
        return self.spills(self.reach) and inside

    @property
    def filters(self) -> int | None:
        """Index of M's innermost loop, along which an invocation computes `outputs` results."""
        m = self.contraction.groups[1]
        return m[-1] if m else None

    @property
    def outer(self) -> list[tuple[int, int]]:
        """Parallel loops except the sliding one, with their numbers of steps, outermost first."""
        _, _, _, k = self.contraction.groups
        tasks: list[tuple[int, int]] = []
        for loop in range(k.start):
            if loop == self.sliding:
                continue
            steps = self.sizes[loop]
            tasks.append((loop, steps // self.outputs if loop == self.filters else steps))
        return tasks

    @property
    def outputs(self) -> int:
        return self.schedule.outputs.data

    @property
    def tasks(self) -> int:
        """Number of segments (parts of a row) in all rows; each subgroup computes one."""
        return self.segments * prod(steps for _, steps in self.outer)

    @property
    def grid(self) -> tuple[int, int, int]:
        return ceil_div(self.tasks, self.schedule.subgroup_count), 1, 1

    @cached_property
    def seconds(self) -> float:
        idle = self.segments * self.target.subgroup_size / self.row
        rotated = self.target.model.window.rotated
        return seconds_of_taps(self.contraction, self.target, rotated) * idle

    # Whether it fits

    def list_problems(self) -> Iterator[str]:
        if self.contraction.is_dynamic:
            yield "a window schedule needs static sizes"
            return
        yield from self._problems_of_window(*self.operands)
        yield from self._problems_of_target()
        contraction = self.contraction
        if any(contraction.prologues):
            yield "a window schedule does not support computed operands"
        if any(packing_of(value) for value in (contraction.a, contraction.b)):
            yield "a window schedule does not support packed operands"
        types = {contraction.types[0], contraction.types[1], contraction.types[2]}
        if unknown := types - set(TYPES):
            yield f"a window schedule supports {', '.join(TYPES)}, not {', '.join(sorted(unknown))}"
        count = 1 if self.filters is None else self.sizes[self.filters]
        if count % self.outputs:
            yield f"outputs = {self.outputs} does not divide the {count} filters"
        elif self.window is not None:
            yield from self.launch_problems()

    def _problems_of_window(self, a: RowMajor, b: RowMajor, result: RowMajor) -> Iterator[str]:
        sliding = self.sliding
        if self.window is None:
            yield "B's last dimension must be indexed by a single loop of K, as in NCHW"
            return
        if b.indices[-1].factors[sliding] != 1 or result.step(sliding) != 1:
            yield "windows must slide by 1 along the last dimension of B and of the result"
        if any(index.factors[sliding] for index in (*b.indices[:-1], *a.indices)):
            yield "the sliding loop must index only B's last dimension"
        if any(index.factors[self.window] for index in b.indices[:-1]):
            yield "the window's loop must index only B's last dimension"
        if self.dilation < 0:
            yield "the dilation of a window must not be negative"
        if any(a.leaves(d, self.sizes) for d in range(len(a.shape))):
            yield "the filters must not be padded"
        size = self.target.subgroup_size
        if self.reach > size:
            yield f"windows end {self.reach} elements after they begin: at most {size} would fit"

    def _problems_of_target(self) -> Iterator[str]:
        target = self.target
        if FEATURE not in target.features:
            yield f"{target.name} has no {FEATURE}"
        pairs = self.window is not None and self.width == 2 and self.selects
        if pairs and self.contraction.types[2] == "f16" and not target.selected_halves:
            yield (
                f"{target.name}'s compiler confuses f16 elements in windows of two that cross a "
                f"multiple of {target.subgroup_size} elements: use another schedule"
            )


OUTPUTS = (8, 4, 2, 1)

SUBGROUPS = 4


def list_plans(contraction: Contraction, target: Target) -> Iterator[Iterator[WindowPlan]]:
    """
    Yields one group of plans, the best first, for depthwise convolutions.

    Each channel is a batch, with so few filters that tiles of M rows would be nearly empty.
    Measured on lavapipe: 20 times as fast as multiply-adds on staged tiles.
    """
    schedules = (WindowAttr(outputs, SUBGROUPS) for outputs in OUTPUTS)
    yield (WindowPlan(contraction, schedule, target) for schedule in schedules)
