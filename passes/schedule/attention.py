"""
What an attention's schedule means in counts, whether it fits a target, and which one to take.

Every subgroup has rows of queries to itself: their scores, running maxima and sums, and their part
of the result stay in its registers and in its own piece of Workgroup memory, so that no subgroup
ever waits for another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from xdsl.dialects.builtin import (
    AffineMapAttr,
    BFloat16Type,
    Float16Type,
    Float32Type,
    MemRefType,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from xdsl_spirv.dialects.schedule import (
    AttentionAttr,
    AttentionLanesAttr,
    AttentionOp,
    InstructionAttr,
    PackedViewOp,
    PackingAttr,
    bit_width,
)
from xdsl_spirv.dialects.schedule.attention import LOOPS
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_multiple, typical
from xdsl_spirv.passes.analysis.contraction import type_name
from xdsl_spirv.passes.analysis.layout import Layout, layout_of
from xdsl_spirv.passes.schedule.attention_lanes import (
    MOST_ROWS,
    LanesPlan,
    check_lanes,
    choose_lanes,
)
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit
from xdsl_spirv.passes.schedule.plan import PackedTile, ceil_div
from xdsl_spirv.targets import Target

Schedule: TypeAlias = AttentionAttr | AttentionLanesAttr

MANY_ROWS = 64
"""Rows that share keys, from which on products by matrices pay for a matrix of scores in memory."""

MOST_HEAD = 256
"""Elements of a query, or of a value: what accumulators leave room for."""

REGISTERS = 232
"""32-bit registers of an invocation that fragments may take; the rest is addresses and scalars."""

MOST_REGISTERS = 288
"""The same with some of them in memory: a long head has no other schedule."""

SPILLS = 4.0
"""Times that a kernel takes longer then."""

ROW_PADDING = 8
"""f16 elements after each row of probabilities: shifts rows by four banks."""

M, N, D, E = range(len(LOOPS))

LOOPS_OF = {"q": (M, D), "k": (N, D), "v": (E, N), "mask": (M, N), "result": (M, E)}
"""The two loops of an operand after the batch's: M or N and K of its product, for q, k and v."""


def _unsupported(element: Attribute, d: int, e: int, target: Target) -> Iterator[str]:
    if not isinstance(element, Float16Type | BFloat16Type):
        yield f"queries, keys and values are f16 or bf16, not {element}"
        return
    if max(d, e) > MOST_HEAD:
        yield f"a head of {max(d, e)} elements: at most {MOST_HEAD}"
    if not target.even_fragments:
        yield f"{target.name} does not list how it distributes fragments over invocations"
    if not any(shapes_of(element, target)):
        name = type_name(element, True)
        yield (
            f"{target.name} lists no cooperative matrices {name} x {name} -> f32 with f16 "
            "accumulators of the same shape"
        )


def shapes_of(element: Attribute, target: Target) -> Iterator[tuple[int, int, int]]:
    """
    Shapes of products into f32 of which the target has f16 accumulators too.

    Those carry probabilities to Workgroup memory, whatever 16 bits they are.
    """
    name = type_name(element, True)
    carriers = {p.shape[:2] for p in target.properties_for(("f16", "f16", "f16"))}
    for listed in target.properties_for((name, name, "f32")):
        if listed.shape[:2] in carriers:
            yield listed.shape


@dataclass(frozen=True)
class AttentionPlan:
    """An attention with its schedule on a target."""

    op: AttentionOp
    schedule: AttentionAttr
    target: Target

    @property
    def element(self) -> Attribute:
        """Of queries, keys and values."""
        return _element(self.op.query)

    @property
    def invocations(self) -> int:
        return self.schedule.subgroups.data * self.target.subgroup_size

    @property
    def grid(self) -> tuple[int, int, int]:
        """Tiles of queries, and the batch."""
        return ceil_div(self.op.extents[M], self.schedule.query_tile.data), self.op.batch, 1

    @property
    def components(self) -> int:
        """Elements of an accumulator fragment that an invocation holds."""
        m, n, _ = self.schedule.instruction.sizes
        return m * n // self.target.subgroup_size

    @property
    def steps(self) -> int:
        """Fragments along a query or key."""
        return ceil_div(self.op.extents[D], self.schedule.instruction.sizes[2])

    @property
    def columns(self) -> int:
        """Fragments along a value."""
        return ceil_div(self.op.extents[E], self.schedule.instruction.sizes[1])

    @property
    def key_fragments(self) -> int:
        """Fragments of scores along a tile of keys."""
        return self.schedule.key_tile.data // self.schedule.instruction.sizes[1]

    def value(self, name: str) -> SSAValue | None:
        """An operand by its name in `LOOPS_OF`."""
        op = self.op
        values = {"q": op.query, "k": op.key, "v": op.value, "mask": op.mask, "result": op.out}
        return values[name]

    def _map(self, name: str) -> AffineMap:
        return self.op.maps.data[("q", "k", "v", "result", "mask").index(name)].data

    def layout(self, name: str) -> Layout:
        """Where an operand lies; its walks are the batch's and those of `LOOPS_OF`."""
        value = self.value(name)
        assert value is not None
        batch = len(self.op.sizes) - len(LOOPS)
        outer, inner = (batch + loop for loop in LOOPS_OF[name])
        groups = (range(batch), range(outer, outer + 1), range(inner, inner + 1))
        return layout_of(self._map(name), _shape(value), None, self.op.sizes, groups)

    def path(self, name: str) -> str:
        return dict(zip("qkv", self.schedule.paths, strict=True))[name]

    def packing(self, name: str) -> PackingAttr:
        """How q, k or v is packed where it is read directly."""
        m, n, k = self.schedule.instruction.sizes
        query, key = self.schedule.query_tile.data, self.schedule.key_tile.data
        fragment, tile = {
            "q": ((m, k), (query, k)),
            "k": ((n, k), (key, k)),
            "v": ((n, k), (n, key)),
        }[name]
        sizes = self.op.sizes
        batch = len(sizes) - len(LOOPS)
        kept = [*range(batch), *(batch + loop for loop in LOOPS_OF[name])]
        dims = [AffineDimExpr(kept.index(i) if i in kept else 0) for i in range(len(sizes))]
        map = self._map(name).replace_dims_and_symbols(dims, [], len(kept), 0)
        return PackingAttr(
            "A" if name == "q" else "B",
            fragment,
            tile,
            AffineMapAttr(map),
            [sizes[loop] for loop in kept],
            [batch, 1, 1],
        )

    def packed_tile(self, name: str) -> PackedTile:
        """The same as it is read."""
        value = self.value(name)
        owner = value.owner if value is not None else None
        packing = owner.packing if isinstance(owner, PackedViewOp) else self.packing(name)
        return PackedTile(packing, self.element, self.target.subgroup_size)

    @property
    def probability_row(self) -> int:
        """Elements from row to row of probabilities in Workgroup memory."""
        return self.schedule.key_tile.data + ROW_PADDING

    @property
    def workgroup_bytes(self) -> int:
        """Probabilities, a fragment of f32, two numbers for each row; and indices once."""
        m, n, _ = self.schedule.instruction.sizes
        rows = self.schedule.rows
        subgroup_bytes = rows * self.probability_row * 2 + m * n * 4 + 2 * rows * 4
        return self.schedule.subgroups.data * subgroup_bytes + (max(m, n) * 4 if self.counts else 0)

    @property
    def counts(self) -> bool:
        """Whether the code needs to know where in a fragment a component stands."""
        return self.op.offset is not None or self.ragged

    @property
    def ragged(self) -> bool:
        """Whether the last tile of keys goes beyond them."""
        return self.op.extents[N] % self.schedule.key_tile.data != 0

    @property
    def registers(self) -> int:
        """
        32-bit registers that fragments take: what the loop carries, the scores, and the operands of
        one product.
        """
        _, n, k = self.schedule.instruction.sizes
        strips, size = self.schedule.strips, self.target.subgroup_size
        m = self.schedule.instruction.sizes[0]
        carried = strips * (self.columns + 2) * self.components
        scores = strips * self.key_fragments * self.components
        queries = strips * self.steps * ceil_div(m * k, 2 * size)
        operands = ceil_div(n * k, 2 * size) + strips * ceil_div(m * k, 2 * size)
        return carried + scores + queries + operands + (2 * self.components if self.counts else 0)

    @property
    def mask_in_fragments(self) -> bool:
        """Whether the mask is loaded cooperatively: whole tiles, aligned, keys side by side."""
        if self.op.mask is None:
            return False
        layout = self.layout("mask")
        m, n, _, _ = self.op.extents
        rows, keys = layout.walks[1], layout.walks[2]
        whole = n % self.schedule.key_tile.data == 0
        whole &= not rows or m % self.schedule.query_tile.data == 0
        if not whole or not keys or keys[0].stride != 1:
            return False
        unit = self._alignment(self.schedule.instruction.sizes[1], _element(self.op.mask))
        steps = [axis.stride for walk in layout.walks[:2] for axis in walk]
        return all(is_multiple(step, unit) for step in steps)

    @property
    def stored_in_fragments(self) -> bool:
        """Whether the result is stored cooperatively."""
        result = _element(self.op.out)
        if isinstance(result, BFloat16Type):
            return False
        layout = self.layout("result")
        m, _, _, e = self.op.extents
        _, n, _ = self.schedule.instruction.sizes
        if m % self.schedule.query_tile.data or e % n:
            return False
        if not layout.is_contiguous(2):
            return False
        unit = self._alignment(n, result)
        steps = [axis.stride for walk in layout.walks[:2] for axis in walk]
        return all(is_multiple(step, unit) for step in steps)

    def by_inner(self, name: str) -> bool:
        """Whether an operand's rows, as `rows` reads them, lie along its second loop."""
        return self.layout(name).is_contiguous(2)

    def rows_fit(self, name: str) -> Iterator[str]:
        """Why fragments of q, k or v cannot be loaded from where the operand lies."""
        layout = self.layout(name)
        packing = self.packing(name)
        for size, tile, what in zip(
            packing.extents[1:], packing.tile, ("M or N", "K"), strict=True
        ):
            if size % tile.data:
                yield (
                    f"{name}: rows, but {size} along {what} is not a multiple of {tile.data}: "
                    "direct takes any size"
                )
        if isinstance(self.value(name), SSAValue) and not (
            layout.is_contiguous(1) or layout.is_contiguous(2)
        ):
            yield f"{name}: rows, but no two neighbours lie side by side: direct packs them"
            return
        other = 1 if self.by_inner(name) else 2
        columns = packing.fragment_sizes[2 - other]
        unit = self._alignment(columns, self.element)
        steps = [axis.stride for walk in (layout.walks[0], layout.walks[other]) for axis in walk]
        if not all(is_multiple(step, unit) for step in steps):
            yield (
                f"{name}: rows, but its rows do not all begin at a multiple of {unit} elements, as "
                "cooperative loads need: direct packs them"
            )

    def _alignment(self, columns: int, element: Attribute) -> int:
        """Elements of which places are multiples from which rows of a fragment are loaded."""
        size = bit_width(element) // 8
        return max(1, min(self.target.cooperative_matrix_alignment, columns * size) // size)


def _element(value: SSAValue) -> Attribute:
    type = value.type
    assert isinstance(type, TensorType | MemRefType)
    return type.element_type


def _shape(value: SSAValue) -> Sequence[int]:
    type = value.type
    assert isinstance(type, TensorType | MemRefType)
    return type.get_shape()


Plan: TypeAlias = AttentionPlan | LanesPlan


def plan_attention(op: AttentionOp, schedule: Schedule, target: Target) -> Plan:
    """An attention with its schedule, by matrices or by multiply-adds."""
    kind = LanesPlan if isinstance(schedule, AttentionLanesAttr) else AttentionPlan
    return kind(op, schedule, target)  # pyright: ignore[reportArgumentType]


def check_attention(plan: Plan) -> None:
    """Raises `ScheduleDoesNotFit` with the first thing that does not."""
    if isinstance(plan, LanesPlan):
        check_lanes(plan)
        return
    for problem in problems(plan):
        raise ScheduleDoesNotFit(problem)


def not_by_matrices(op: AttentionOp) -> Iterator[str]:
    """What an attention has that no schedule by matrices knows."""
    if op.is_dynamic:
        yield "sizes are known only when the program runs, and fragments need them before"
    for name in ("window", "cap", "parts"):
        if name in op.properties:
            yield f"a {name}, which multiply-adds know: #schedule.attention_lanes"


def problems(plan: AttentionPlan) -> Iterator[str]:
    """The reasons why it does not fit, each with the number and what would."""
    op, schedule, target = plan.op, plan.schedule, plan.target
    for missing in not_by_matrices(op):
        yield missing
        return
    _, _, d, e = op.extents
    yield from _unsupported(plan.element, d, e, target)
    if any(_element(value) != plan.element for value in (op.key, op.value)):
        yield "queries, keys and values differ in their element type"
        return
    listed = list(shapes_of(plan.element, target))
    if listed and schedule.instruction.sizes not in listed:
        shapes = ", ".join("x".join(map(str, shape)) for shape in listed)
        given = "x".join(map(str, schedule.instruction.sizes))
        yield f"coopmat {given}: {target.name} has {shapes}"
        return
    if not isinstance(_element(op.out), Float16Type | BFloat16Type | Float32Type):
        yield f"the result is f16, bf16 or f32, not {_element(op.out)}"
    if plan.invocations > target.max_invocations:
        yield (
            f"{schedule.subgroups.data} subgroups of {target.subgroup_size} are {plan.invocations} "
            f"invocations, {target.name} allows {target.max_invocations}"
        )
    if plan.workgroup_bytes > target.workgroup_memory_bytes:
        yield (
            f"Workgroup memory of {plan.workgroup_bytes} bytes exceeds {target.name}'s "
            f"{target.workgroup_memory_bytes}: fewer subgroups, rows or keys would fit"
        )
    if plan.registers > MOST_REGISTERS and _parallel(target) > 1:
        # Where one subgroup fills a unit, registers are memory anyway.
        yield (
            f"fragments take {plan.registers} registers of an invocation, at most "
            f"{MOST_REGISTERS} do: fewer rows a subgroup or a smaller key_tile would fit"
        )
    for axis, count, limit in zip("xyz", plan.grid, target.max_grid, strict=True):
        if count > limit:
            yield f"{count} workgroups in {axis}, {target.name} allows {limit}"
    for name in "qkv":
        value = plan.value(name)
        packed = value is not None and isinstance(value.owner, PackedViewOp)
        if plan.path(name) == "rows":
            if packed:
                yield f"{name}: rows, but the operand is packed into fragments: direct reads it"
            else:
                yield from plan.rows_fit(name)
        elif plan.packed_tile(name).words not in (1, 2, 4):
            yield f"{name}: an invocation's share of a fragment is not 1, 2 or 4 words"


SUBGROUPS = (4, 8, 2, 1)
STRIPS = (2, 1)
KEY_FRAGMENTS = (2, 4, 1)
"""
Of scores along a tile of keys, best first: with 4, and fewer steps, the H200 is slower
(benchmarks/results/h200-attention-schedules.json).
"""

FEW_TILES = 2
"""Tiles of queries up to which packing keys and values does not pay."""

SIDE_BY_SIDE = 4
"""Subgroups that a unit computes without one delaying another."""

TWO_STRIPS = 1.3
"""Time of two strips of rows, which share the fragments of keys and values, in that of one."""


def choose_attention(op: AttentionOp, target: Target) -> Schedule:
    """
    By matrices where the target has them and there are rows enough to fill them.

    Raises `ScheduleDoesNotFit` where nothing fits.
    """
    if is_few(op, target):
        return choose_lanes(op, target)
    try:
        return choose_matrices(op, target)
    except ScheduleDoesNotFit:
        if is_better_apart(op, target):
            raise
        return choose_lanes(op, target)


def is_better_apart(op: AttentionOp, target: Target) -> bool:
    """Whether there are rows enough for two products by matrices to beat one kernel without."""
    name = type_name(_element(op.query), True)
    alike = all(_element(value) == _element(op.query) for value in (op.key, op.value))
    plan = LanesPlan(op, AttentionLanesAttr(1, 1, 1, 1, "keys"), target)
    matrices = alike and any(target.properties_for((name, name, "f32")))
    return matrices and _parallel(target) > 1 and typical(plan.row_count) > MANY_ROWS


def is_few(op: AttentionOp, target: Target) -> bool:
    """Whether there are so few rows to a matrix of keys that multiply-adds keep up with memory."""
    plan = LanesPlan(op, AttentionLanesAttr(1, 1, 1, 1, "keys"), target)
    return typical(plan.row_count) <= MOST_ROWS


def choose_matrices(op: AttentionOp, target: Target) -> AttentionAttr:
    """
    The schedule with the least estimated time: rounds of workgroups, times what one of them takes.

    Of instructions the first is taken that fits at all.
    Raises `ScheduleDoesNotFit` where none fits.
    """
    reasons: list[str] = list(not_by_matrices(op))
    if reasons:
        raise ScheduleDoesNotFit(reasons[0])
    for shape in list(shapes_of(_element(op.query), target)) or [(16, 16, 16)]:
        best: tuple[float, AttentionAttr] | None = None
        for candidate in _candidates(op, target, shape):
            misfits = list(problems(candidate))
            reasons += misfits
            seconds = _cost(candidate)
            if not misfits and (best is None or seconds < best[0]):
                best = seconds, candidate.schedule
        if best is not None:
            return best[1]
    raise ScheduleDoesNotFit(reasons[0] if reasons else f"{target.name} has none for it")


def _parallel(target: Target) -> int:
    """Subgroups of a workgroup that do not delay one another."""
    return min(SIDE_BY_SIDE, target.residency.subgroups)


def _candidates(
    op: AttentionOp, target: Target, shape: tuple[int, int, int]
) -> Iterator[AttentionPlan]:
    subgroups_of, strips_of, counts = SUBGROUPS, STRIPS, KEY_FRAGMENTS
    if op.offset is not None:
        # Less is wasted at the mask's edge, and registers are left for what is computed there.
        strips_of, counts = (1,), (4, 2, 1)
    if _parallel(target) == 1:
        # A driver for a processor: long code takes it seconds to compile, and lavapipe takes a
        # subgroup's barrier for the workgroup's.
        subgroups_of, strips_of, counts = (1,), (1,), (2, 1)
    for strips, count, subgroups in product(strips_of, counts, subgroups_of):
        tile, keys = subgroups * strips * shape[0], count * max(shape[1:])
        if count == 1 or keys < 2 * op.extents[N]:
            schedule = _with_paths(op, target, tile, keys, subgroups, shape)
            yield AttentionPlan(op, schedule, target)


def _cost(plan: AttentionPlan) -> float:
    rounds = ceil_div(plan.grid[0] * plan.op.batch, plan.target.compute_units)
    waits = max(1.0, plan.schedule.subgroups.data / _parallel(plan.target))
    spilled = plan.registers > REGISTERS and _parallel(plan.target) > 1
    spills = SPILLS * plan.registers / REGISTERS if spilled else 1.0
    return rounds * waits * spills * (TWO_STRIPS if plan.schedule.strips > 1 else 1.0)


def _with_paths(
    op: AttentionOp,
    target: Target,
    tile: int,
    keys: int,
    subgroups: int,
    shape: tuple[int, int, int],
) -> AttentionAttr:
    """Fragments from where operands lie if that is possible and packing would not pay."""
    instruction = InstructionAttr("coopmat", shape)
    plan = AttentionPlan(op, AttentionAttr(tile, keys, subgroups, instruction), target)
    paths = ["direct", "direct", "direct"]
    few = plan.grid[0] <= FEW_TILES
    for position, name in enumerate("qkv"):
        if (name == "q" or few) and not any(plan.rows_fit(name)):
            paths[position] = "rows"
    q, k, v = paths
    return AttentionAttr(tile, keys, subgroups, instruction, (q, k, v))
