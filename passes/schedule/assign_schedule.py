"""
A schedule for every contraction, from the target's data and the shape.

The target's file lists tiles that do well on it. Of those that fit, the one with the least
estimated time is taken (see `cost`): a large result gets large tiles, and a small one enough
workgroups to go round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import lcm, log2, prod
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, BlockArgument, Operation
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.schedule import (
    SCHEDULE,
    AttentionAttr,
    AttentionLanesAttr,
    AttentionMergeOp,
    AttentionOp,
    ContractionAttr,
    DirectAttr,
    DispatchOp,
    InstructionAttr,
    PackOp,
    RowsAttr,
    StagedAttr,
    WindowAttr,
    bit_width,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import TYPICAL, TYPICAL_SIZE, typical
from xdsl_spirv.passes.analysis.constants import is_weight
from xdsl_spirv.passes.analysis.contraction import (
    Contraction,
    NotAContraction,
    contraction_of,
    element_type,
    storage,
)
from xdsl_spirv.passes.analysis.layout import Layout
from xdsl_spirv.passes.analysis.target import TARGET, load_target
from xdsl_spirv.passes.refusal import refuse
from xdsl_spirv.passes.schedule.cost import Candidate, cost
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit, check, not_listed, problems_of
from xdsl_spirv.passes.schedule.paths import (
    ATTENTION,
    COOPERATIVE_MATRIX,
    DOT,
    FMA,
    LOOPS,
    ROTATE,
    ROWS,
    Decisions,
    Limits,
    path_of,
)
from xdsl_spirv.passes.schedule.plan import Plan, ceil_div, plan
from xdsl_spirv.passes.schedule.rows import (
    FEW_FOR_MATRICES,
    RowsPlan,
    check_rows,
    rows_or_reason,
)
from xdsl_spirv.passes.schedule.tiles import INNER, column_walk, k_axis_of
from xdsl_spirv.passes.schedule.tuned import lookup
from xdsl_spirv.passes.schedule.window import WindowPlan, check_window, window_or_reason
from xdsl_spirv.targets import ScheduleCandidate, Target
from xdsl_spirv.upstream.equality import is_same

STAGED_ROW_PADDING = 16
"""Bytes: shifts each row by four banks, and keeps cooperative loads aligned."""


@dataclass(frozen=True)
class AssignSchedulePass(ModulePass):
    """Chooses a schedule for each contraction that has none; checks those that have one."""

    name = "assign-schedule"

    target: str = ""
    """A known device's name or the path of a target file."""

    typical_size: int = TYPICAL
    """The number that a size known only when the program runs is taken for, to choose by."""

    only: tuple[str, ...] = ()
    """The layers that alone may take a path, each as PATH=PATTERN."""

    barred: tuple[str, ...] = ()
    """The layers that may not take a path, each as PATH=PATTERN."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = op.attributes.get(TARGET)
        name = self.target or (known.data if isinstance(known, StringAttr) else "")
        target = load_target(name, op, self.name)
        op.attributes[TARGET] = StringAttr(name)
        decisions = Decisions(Limits(self.only, self.barred))
        if self.typical_size != TYPICAL:
            op.attributes[TYPICAL_SIZE] = IntegerAttr(self.typical_size, i64)
        self._assign_all(op, target, decisions)
        decisions.write()

    def _assign_all(self, op: ModuleOp, target: Target, decisions: Decisions) -> None:
        choices = _Choices(target, decisions)
        for inner in op.walk():
            if not isinstance(inner, LinalgStructuredOperation):
                continue
            try:
                contraction = contraction_of(inner)
            except NotAContraction as error:
                decisions.note(inner, LOOPS, str(error), taken=True)
                continue
            own = SCHEDULE in inner.attributes or not isinstance(inner.parent_op(), DispatchOp)
            if contraction.channels_lie_side_by_side and not own:
                reason = "channels lie side by side: loops along them move vectors"
                decisions.note(inner, LOOPS, reason, taken=True)
                continue
            self._assign(contraction, choices)
        for inner, schedule in choices.schedules.items():
            inner.attributes[SCHEDULE] = schedule
        for inner in op.walk():
            if isinstance(inner, AttentionOp):
                self._assign_attention(inner, target, decisions)
        for inner in op.walk():
            if isinstance(inner, DispatchOp) and SCHEDULE not in inner.attributes:
                if not any(map(_needs_none, inner.body.walk())):
                    from xdsl_spirv.passes.schedule.loops_schedule import choose_loops

                    inner.attributes[SCHEDULE] = choose_loops(inner, target, self.name)

    def _assign_attention(self, op: AttentionOp, target: Target, decisions: Decisions) -> None:
        from xdsl_spirv.passes.schedule.attention_choice import choose_attention
        from xdsl_spirv.passes.schedule.attention_fit import check_attention, plan_attention

        given = op.attributes.get(SCHEDULE)
        try:
            if given is None:
                op.attributes[SCHEDULE] = choose_attention(op, target)
                reason = "scores, softmax and values in one kernel"
                decisions.note(op, ATTENTION, reason, taken=True)
            elif isinstance(given, AttentionAttr | AttentionLanesAttr):
                check_attention(plan_attention(op, given, target))
            else:
                refuse(self.name, op, f"its schedule {given} is not a #schedule.attention")
        except ScheduleDoesNotFit as error:
            refuse(self.name, op, str(error))

    def _assign(self, contraction: Contraction, choices: _Choices) -> None:
        op, target = contraction.op, choices.target
        given = op.attributes.get(SCHEDULE)
        try:
            if given is None:
                choices.choose(contraction)
            elif isinstance(given, ContractionAttr):
                check(plan(contraction, given, target))
                path, reason = path_of(given) or "", "its schedule was given"
                choices.decisions.note(op, path, reason, taken=True)
            elif isinstance(given, WindowAttr):
                check_window(WindowPlan(contraction, given, target))
                choices.decisions.note(op, ROTATE, "its schedule was given", taken=True)
            elif isinstance(given, RowsAttr):
                check_rows(RowsPlan(contraction, given, target))
                choices.decisions.note(op, ROWS, "its schedule was given", taken=True)
            else:
                refuse(self.name, op, f"its schedule {given} is not a #schedule.contraction")
        except (ScheduleDoesNotFit, NotAContraction) as error:
            hint = _nearest(contraction, given, target) if given is not None else ""
            refuse(self.name, op, f"{contraction}: {error}{hint}")


Schedule: TypeAlias = ContractionAttr | WindowAttr | RowsAttr


class _Choices:
    """
    The schedules that were chosen; dispatches that are alike have one, which is chosen once.

    A network repeats its layers, and a hundred schedules are weighed for each of them.
    """

    def __init__(self, target: Target, decisions: Decisions):
        self.target, self.decisions = target, decisions
        self.schedules: dict[Operation, Schedule] = {}
        self._known: dict[tuple[object, ...], list[Contraction]] = {}

    def choose(self, contraction: Contraction) -> None:
        """Raises `ScheduleDoesNotFit` where no schedule does."""
        op = contraction.op
        dispatch = op.parent_op()
        # With limits, dispatches that are alike but for their names may take other paths.
        if not isinstance(dispatch, DispatchOp) or self.decisions.limits:
            self.schedules[op] = decide(contraction, self.target, self.decisions)
            return
        inside = list(dispatch.body.walk())
        weights = is_weight(contraction.a), is_weight(contraction.b)
        key = inside.index(op), weights, *(inner.name for inner in inside)
        for other in self._known.get(key, ()):
            like = other.op.parent_op()
            if isinstance(like, DispatchOp) and is_same(like.body, dispatch.body):
                self.decisions.repeat(op, other.op)
                self.schedules[op] = self.schedules[other.op]
                return
        self.schedules[op] = decide(contraction, self.target, self.decisions)
        self._known.setdefault(key, []).append(contraction)


def _needs_none(op: Operation) -> bool:
    """Whether the dispatch around an operation needs no schedule of loops."""
    return SCHEDULE in op.attributes or isinstance(op, PackOp | AttentionMergeOp)


def _nearest(contraction: Contraction, given: Attribute, target: Target) -> str:
    """The schedule that fits and is most like one that does not, as the end of a refusal."""
    if isinstance(given, WindowAttr):
        window = window_or_reason(contraction, target)
        return f"; {window} fits" if isinstance(window, WindowAttr) else ""
    if not isinstance(given, ContractionAttr):
        return ""
    fitting = [
        candidate.schedule
        for _, candidates in candidates_of(contraction, target)
        for candidate in candidates
        if not any(problems_of(plan(contraction, candidate.schedule, target)))
    ]
    if not fitting:
        return f"; {target.name} has no schedule for it"
    best = min(fitting, key=lambda schedule: _distance(given, schedule))
    return f"; the nearest schedule that fits is {best}"


def _distance(one: ContractionAttr, other: ContractionAttr) -> tuple[float, ...]:
    """Instructions of another kind first, then how often sizes must be doubled or halved."""
    kinds = one.instruction.kind.data != other.instruction.kind.data
    sizes = [
        abs(log2(x / y))
        for a, b in (
            (one.tile, other.tile),
            (one.grid, other.grid),
            ((one.slices,), (other.slices,)),
            (one.instruction.sizes, other.instruction.sizes),
        )
        for x, y in zip(a, b, strict=True)
    ]
    paths = sum(type(x) is not type(y) for x, y in ((one.a, other.a), (one.b, other.b)))
    return float(kinds), sum(sizes) + paths


def decide(contraction: Contraction, target: Target, decisions: Decisions) -> Schedule:
    """
    The schedule that was measured, or else a window's where that pays, or else the cheapest.

    Records why a path was not taken. Raises `ScheduleDoesNotFit` where none is left.
    """
    op = contraction.op
    known = lookup(contraction, target)
    path = None if known is None else path_of(known)
    if known is not None and path is not None and not decisions.bars(op, path):
        decisions.note(op, path, f"measured to be the fastest on {target.name}", taken=True)
        return known
    if not decisions.bars(op, ROTATE):
        window = window_or_reason(contraction, target)
        if isinstance(window, WindowAttr):
            reason = "a depthwise convolution: tiles would be nearly empty"
            decisions.note(op, ROTATE, reason, taken=True)
            return window
        decisions.note(op, ROTATE, window)
    if not decisions.bars(op, ROWS):
        rows = choose_rows(contraction, target, decisions)
        if isinstance(rows, RowsAttr):
            decisions.note(op, ROWS, "few rows: the other operand streams", taken=True)
            return rows
        decisions.note(op, ROWS, rows)
    return cheapest(contraction, target, decisions)[1]


def choose_rows(contraction: Contraction, target: Target, decisions: Decisions) -> RowsAttr | str:
    """
    A schedule of few rows, or why there is none: cooperative matrices, too, where rates are known
    by which they are faster.
    """
    rows = rows_or_reason(contraction, target)
    matrices = target.measured_copy is not None and target.residency.subgroups > 1
    if isinstance(rows, str) or not matrices or not target.properties_for(contraction.types):
        return rows
    plan_of_rows = RowsPlan(contraction, rows, target)
    seconds = plan_of_rows.seconds
    try:
        other, schedule = cheapest(contraction, target, Decisions(decisions.limits))
    except (ScheduleDoesNotFit, NotAContraction):
        return rows
    other = max(other, plan_of_rows.seconds_of_reading)
    if path_of(schedule) != COOPERATIVE_MATRIX or other >= seconds:
        return rows
    # Through Workgroup memory, with barriers, an operand does not stream as fast as estimated.
    streams = isinstance((schedule.a, schedule.b)[plan_of_rows.streamed], DirectAttr)
    few = min(typical(contraction.m), typical(contraction.n))
    if not streams and few <= FEW_FOR_MATRICES:
        return rows
    return f"about {seconds * 1e6:.0f} us by estimate, on matrices {other * 1e6:.0f}"


def choose(contraction: Contraction, target: Target) -> ContractionAttr:
    """The schedule that `cheapest` finds; raises `ScheduleDoesNotFit` where none fits."""
    return cheapest(contraction, target, Decisions())[1]


def cheapest(
    contraction: Contraction, target: Target, decisions: Decisions
) -> tuple[float, ContractionAttr]:
    """
    The cheapest of the target's tiles, with the first instruction in its list that fits any, after
    the seconds that it is likely to take.

    Where the target lists no cooperative matrix of these types, invocations compute by themselves:
    8-bit integers by packed dot products where it has them, all else by multiply-adds.
    Raises `ScheduleDoesNotFit` where none fits.
    """
    op = contraction.op
    if not target.properties_for(contraction.types):
        decisions.note(op, COOPERATIVE_MATRIX, not_listed(contraction.types, target))
    rejected: list[Plan] = []
    excluded: dict[str, None] = {}
    for path, candidates in candidates_of(contraction, target):
        if decisions.bars(op, path):
            excluded[path] = None
            continue
        best: tuple[float, ContractionAttr] | None = None
        problems: Counter[str] = Counter()
        fitting = 0
        for candidate in candidates:
            candidate_plan = plan(contraction, candidate.schedule, target)
            seconds = cost(candidate_plan, candidate.rate, candidate.alone, candidate.stream)
            if best is not None and seconds >= best[0]:
                fitting += 1
                continue
            problem = next(problems_of(candidate_plan), None)
            if problem is not None:
                rejected.append(candidate_plan)
                problems[problem] += 1
            else:
                best = seconds, candidate.schedule
                fitting += 1
        if best is not None:
            decisions.note(op, path, f"the cheapest of {fitting} tiles by estimate", taken=True)
            return best
        decisions.note(op, path, _reason(problems, target))
    if excluded:
        raise ScheduleDoesNotFit(f"no path is left for it where {', '.join(excluded)} is barred")
    check(rejected[-1])
    raise ScheduleDoesNotFit(f"{target.name} has no schedule for it")


def _reason(problems: Counter[str], target: Target) -> str:
    """Why no candidate of a path fits: what hinders most of them."""
    if not problems:
        return f"none of {target.name}'s tiles is made of such fragments"
    problem, count = problems.most_common(1)[0]
    total = problems.total()
    return problem if total == count else f"{problem} (so {count} of {total} tiles)"


UNPACKED = 0.6
"""
The share of a rate that remains where an operand is unpacked on its way, and the target's file says
nothing of that: 172 of 290 TFLOPS with Q4_1 on an H200.
"""


def candidates_of(
    contraction: Contraction, target: Target
) -> Iterator[tuple[str, Iterator[Candidate]]]:
    """Paths with their candidates by instruction, the best instruction first."""
    for listed in target.properties_for(contraction.types):
        yield COOPERATIVE_MATRIX, _candidates(contraction, target, listed.shape)
    yield DOT, _dot_candidates(contraction, target)
    yield FMA, _scalar_candidates(contraction, target)


def _candidates(
    contraction: Contraction, target: Target, shape: tuple[int, int, int]
) -> Iterator[Candidate]:
    """A schedule for each of the target's tiles that fragments of this shape divide."""
    m, n, k = shape
    a_type, _, result = contraction.types
    bits = bit_width(contraction.element_types[2])
    a, b = paths(contraction, shape, 16)
    instruction = InstructionAttr("coopmat", shape)
    element_bytes = bit_width(contraction.element_types[0]) // 8
    packed = set(packable(contraction))
    units = {n: u for n, u in zip("ab", contraction.unpackings, strict=True) if u is not None}
    staged: dict[str, list[StagedAttr]] = {"a": [a], "b": [b]}
    for operand, (name, ways) in enumerate(staged.items()):
        panels = in_panels(contraction, operand, k) if name in packed else None
        if panels is not None:
            ways.append(panels)
    for candidate in target.schedules:
        (tile_m, tile_n), (rows, columns, *slices) = candidate.tile, candidate.subgroups
        types = f"{a_type} -> {result}"
        rate, alone = candidate.rates.get(types), candidate.alone.get(types)
        stream = None if units else candidate.streams.get(types, target.streams.get(types))
        if units:
            measured = candidate.rates.get(f"unpacked {types}")
            # How fast fragments are computed follows from no other rate.
            if measured is None and not units.keys().isdisjoint(candidate.direct):
                continue
            rate, alone = (
                (measured, candidate.alone.get(f"unpacked {types}"))
                if measured is not None
                else (rate and UNPACKED * rate, alone and UNPACKED * alone)
            )
        if candidate.accumulator_bits not in (None, bits) or (candidate.rates and not rate):
            continue
        if tile_m % (rows * m) or tile_n % (columns * n):
            continue
        # What is unpacked in the kernel may be read directly, but nobody packs it before.
        if not packed.union(units).issuperset(candidate.direct):
            continue
        if not packed.issuperset({*candidate.fragments, *candidate.panels}):
            continue
        whole = _whole(contraction, target, shape, candidate.direct) * prod(slices)
        deep = ceil_div(max(k, candidate.k_bytes // element_bytes // k * k), whole) * whole
        tile = tile_m, tile_n, min(deep, ceil_div(typical(contraction.k), whole) * whole)
        for stages in range(candidate.stages, 0, -1):
            # What does not wait in registers is read when it is needed.
            buffers = candidate.buffers if stages > 1 else 1
            choices = [
                _packed_ways(contraction, candidate, operand, (k, tile[2] // prod(slices)), buffers)
                or [_buffered(way, buffers) for way in ways]
                for operand, ways in enumerate(staged.values())
            ]
            for path_a, path_b in product(*choices):
                grid, group, first = candidate.subgroups, candidate.group, candidate.first
                schedule = ContractionAttr(
                    tile,
                    grid,
                    instruction,
                    path_a,
                    path_b,
                    stages,
                    group=group,
                    first=first,
                    result=candidate.result,
                )
                yield Candidate(schedule, rate, alone, stream)


def _whole(
    contraction: Contraction, target: Target, shape: tuple[int, int, int], direct: str
) -> int:
    """Elements along K of whole instructions and units, or groups of those that are unpacked."""
    m, n, k = shape
    sizes = [k]
    matrices = (("a", "A", (m, k)), ("b", "B", (k, n)))
    for (name, use, matrix), unpacking, element in zip(
        matrices, contraction.unpackings, contraction.element_types, strict=False
    ):
        if unpacking is None:
            continue
        from xdsl_spirv.passes.schedule.k_order import orders_of

        fragment = target.fragment(use, matrix, bit_width(element)) if name in direct else None
        orders = () if fragment is None else orders_of(fragment, unpacking.sizes)
        sizes.append(min((order.group for order in orders), default=unpacking.size))
    return lcm(*sizes)


def _packed_ways(
    contraction: Contraction,
    candidate: ScheduleCandidate,
    operand: int,
    depths: tuple[int, int],
    buffers: int,
) -> list[StagedAttr | DirectAttr]:
    """
    The way of A (0) or B (1) to its fragments if the candidate has it packed, or none.

    `depths` are those of an instruction, and of what a subgroup multiplies of a K tile.
    """
    k, depth = depths
    name, size = "ab"[operand], bit_width(contraction.element_types[operand]) // 8
    if name in candidate.direct:
        return [DirectAttr(min(candidate.ahead, depth // k))]
    if name in candidate.fragments:
        return [StagedAttr(0, STAGED_ROW_PADDING // size, buffers, "fragments")]
    if name in candidate.panels:
        vector = min(STAGED_ROW_PADDING // size, k)
        ahead = candidate.staged_ahead if buffers > 1 else 0
        return [StagedAttr(STAGED_ROW_PADDING // size, vector, buffers, "panels", ahead)]
    return []


def _whole_units(contraction: Contraction, depth: int, k: int) -> int:
    """A depth along K that is no less, of whole instructions and units that are unpacked."""
    whole = lcm(k, *(u.size for u in contraction.unpackings if u is not None))
    return ceil_div(depth, whole) * whole


def _buffered(path: StagedAttr, buffers: int) -> StagedAttr:
    return StagedAttr(path.padding.data, path.vector.data, buffers, path.layout.data)


def in_panels(contraction: Contraction, operand: int, k: int) -> StagedAttr | None:
    """
    A (0) or B (1) packed into panels, where that moves more at a time than the operand's own rows.

    `k` is how many elements along K a fragment has. 8-bit operands also gain where they lie across
    K, as no instruction turns single bytes.
    """
    layout, element = contraction.layouts[operand], contraction.element_types[operand]
    size, axis = bit_width(element) // 8, k_axis_of(layout)
    vector = min(STAGED_ROW_PADDING // size, k)
    if layout.run(column_walk(axis)) % vector == 0 and (axis == 1 or size > 1):
        return None
    return StagedAttr(STAGED_ROW_PADDING // size, vector, layout="panels")


def packable(contraction: Contraction) -> Iterator[str]:
    """The operands that come into a dispatch as they are multiplied."""
    if isinstance(contraction.op.parent_op(), DispatchOp):
        for number, (name, value) in enumerate((("a", contraction.a), ("b", contraction.b))):
            if isinstance(value, BlockArgument) and not contraction.has_dynamic_size(number):
                yield name


SCALAR_SHAPES = ((8, 8), (8, 4), (4, 8), (4, 4), (2, 4), (4, 2), (1, 4), (4, 1), (2, 2), (1, 1))
"""Elements of the result that an invocation computes: rows, columns."""

SCALAR_GRIDS = ((2, 2), (1, 2), (2, 1), (4, 1), (1, 4), (1, 1))

SCALAR_DEPTH = 16
"""Elements of K that a workgroup stages at a time."""


DOT_DEPTH = 64
"""8-bit elements of K that a workgroup stages at a time."""


def _scalar_candidates(contraction: Contraction, target: Target) -> Iterator[Candidate]:
    """Schedules in which every invocation computes a few elements of the result."""
    size = typical(contraction.k)
    k = 4 if size > 2 else size
    tile_k = _whole_units(contraction, min(SCALAR_DEPTH, ceil_div(size, k) * k), k)
    for (m, n), grid, (tile_m, tile_n) in _scalar_tiles(target):
        both = paths(contraction, (m, n, k), 4)
        instruction = InstructionAttr("fma", (m, n, k))
        for stages in (2, 1):
            tile = tile_m, tile_n, tile_k
            yield Candidate(ContractionAttr(tile, grid, instruction, *both, stages))


def _dot_candidates(contraction: Contraction, target: Target) -> Iterator[Candidate]:
    """The same by packed dot products."""
    size = typical(contraction.k)
    k = min(16, ceil_div(size, 4) * 4)
    tile_k = min(DOT_DEPTH, ceil_div(size, k) * k)
    a_layout, b_layout, _ = contraction.layouts
    a, b = _dot_path(a_layout, k), _dot_path(b_layout, k)
    for (m, n), grid, (tile_m, tile_n) in _scalar_tiles(target):
        instruction = InstructionAttr("dot", (m, n, k))
        yield Candidate(ContractionAttr((tile_m, tile_n, tile_k), grid, instruction, a, b))


def _dot_path(layout: Layout, k: int) -> StagedAttr:
    """The widest vectors that lie along K; words put together from single bytes where none do."""
    run = layout.run(INNER)
    vector = next((v for v in (16, 8, 4) if k % v == 0 and run % v == 0), 4)
    return StagedAttr(padding=STAGED_ROW_PADDING, vector=vector)


def _scalar_tiles(
    target: Target,
) -> Iterator[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """An invocation's elements, the grid of subgroups, and the workgroup's tile: M and N each."""
    lanes = target.subgroup_size
    along_m = 1 << (lanes.bit_length() - 1) // 2
    for (m, n), (rows, columns) in product(SCALAR_SHAPES, SCALAR_GRIDS):
        if m * n > target.scalar_results:
            continue
        yield (m, n), (rows, columns), (rows * along_m * m, columns * (lanes // along_m) * n)


def paths(
    contraction: Contraction, shape: tuple[int, int, int], most: int
) -> tuple[StagedAttr, StagedAttr]:
    """
    The widest vectors that divide each operand's rows and a fragment's.

    `most` is how many elements they may have.
    """
    m, n, k = shape
    a_type, b_type, _ = contraction.element_types
    a_layout, b_layout, _ = contraction.layouts
    a_most, b_most = (
        min(most, 16 * 8 // bit_width(element_type(storage(value)[0])))
        for value in (contraction.a, contraction.b)
    )
    return _path(a_type, a_layout, m, k, a_most), _path(b_type, b_layout, n, k, b_most)


def _path(element: Attribute, layout: Layout, outer: int, k: int, most: int) -> StagedAttr:
    """`outer` and `k` are a fragment's sizes along the operand's M or N, and along K."""
    size = bit_width(element) // 8
    axis = k_axis_of(layout)
    run, fragment_row = layout.run(column_walk(axis)), k if axis == 1 else outer
    widths = [v for v in (16, 8, 4, 2) if v <= most and v * size in (4, 8, 16)]
    vector = next((v for v in widths if run % v == 0 and fragment_row % v == 0), 1)
    return StagedAttr(padding=STAGED_ROW_PADDING // size, vector=vector)
