"""
Chooses the schedule of operations that are not contractions, from shapes and target parameters.

Without a long reduction, each invocation computes elements independently. With a long reduction,
the smallest unit that keeps the device busy computes a row: an invocation if there are many rows,
else a subgroup, or a workgroup if rows are few and long. A workgroup also computes rows that are
too long for the cache, because it holds them in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod

from xdsl.dialects import linalg
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FixedBitwidthType,
    TensorType,
    f16,
    f32,
    i8,
    i16,
    i32,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Attribute

from xdsl_spirv.dialects.schedule import DispatchOp, LoopsAttr, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    ceil_div,
    is_dynamic,
    is_multiple,
    typical,
)
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.combinations import UNROLLED as KEPT
from xdsl_spirv.passes.analysis.combinations import UNROLLED_BESIDE, combinations_of
from xdsl_spirv.passes.analysis.loops_access import crossing, fast_loops, is_run, tile_grid
from xdsl_spirv.passes.analysis.loops_arrays import Loops, NotLoops, Result, Stored
from xdsl_spirv.passes.analysis.loops_nests import (
    Nest,
    dimensions_along_rows,
    nests_of,
    reductions_of,
    sources_of,
)
from xdsl_spirv.passes.analysis.loops_reader import results_of_dispatch
from xdsl_spirv.passes.schedule.kinds import EXCHANGES, MOST_BITS, WIDTHS, KernelPlan
from xdsl_spirv.targets import Target

IN_WORKGROUP: dict[Attribute, frozenset[str]] = {
    f32: frozenset(),
    i32: frozenset(),
    f16: frozenset(("float16",)),
    i16: frozenset(("int16",)),
    i8: frozenset(("int8",)),
}
"""Element types of tiles in Workgroup memory, with the target features that they need."""

MOST_INVOCATIONS = 2**30
"""Largest number of invocations of a launch. Index plus stride must fit a signed 32-bit integer."""

MOST_SUBGROUPS = 32
"""Largest number of subgroups in a workgroup on every device (maxComputeWorkgroupSubgroups)."""


@dataclass(frozen=True)
class LoopsPlan(KernelPlan):
    """A dispatch without a contraction, with its schedule on a target."""

    dispatch: DispatchOp
    schedule: LoopsAttr
    target: Target

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        return self.schedule.workgroups.data, 1, 1

    @property
    def invocations(self) -> int:
        return self.schedule.workgroup.data

    @property
    def kernel_name(self) -> str:
        """`elementwise_MxN`, `reduction_M` or `move_MxN`, with the sizes of the first result."""
        ops = self.dispatch.body.block.ops
        loops = [op for op in ops if isinstance(op, LinalgStructuredOperation)]
        computes = any(not isinstance(op, linalg.ops.FillOp) for op in loops)
        iterators = (kind.data for op in loops for kind in op.get_iterator_types())
        kind = "elementwise" if computes else "move"
        if any(iterator != IteratorType.PARALLEL for iterator in iterators):
            kind = "reduction"
        type = self.dispatch.outputs[0].type
        assert isinstance(type, TensorType)
        sizes = ("D" if size == DYNAMIC_INDEX else str(size) for size in type.get_shape())
        return f"{kind}_{'x'.join(sizes)}".removesuffix("_")

    @property
    def has_loops(self) -> bool:
        return True

    def busy_workgroups(self, results: Callable[[], Sequence[Result]]) -> Size:
        """
        Returns the number of workgroups with work: fewer than launched if dynamic sizes are small.
        """
        total: Size = 0
        for nest in nests_of(results()):
            sizes = _row_sizes(nest)
            rows = prod(sizes)
            if not is_dynamic(rows):
                return self.schedule.workgroups.data
            tile = self.schedule.tile.data
            axes = crossing(nest, tile) if tile > 1 else None
            if axes is not None:
                total += prod(tile_grid(nest, axes, tile))
                continue
            wide = [size for size in sizes if size != 1]
            beside = self.schedule.elements.data if self.schedule.rows.data > 1 else 1
            if wide and not is_multiple(wide[-1], beside):
                beside = 1
            rows_at_once = {
                "invocation": self.schedule.workgroup.data,
                "subgroup": self.schedule.workgroup.data // self.target.subgroup_size,
                "workgroup": self.schedule.rows.data * beside,
            }[self.schedule.reduce.data]
            total += ceil_div(rows, rows_at_once)
        return total if is_dynamic(total) else self.schedule.workgroups.data

    def list_problems(self) -> Iterator[str]:
        yield from self.launch_problems()
        target, size, reduce = self.target, self.target.subgroup_size, self.schedule.reduce.data
        if reduce == "subgroup" and not EXCHANGES & target.features:
            yield (
                f"reduce = subgroup: {target.name} has none of {', '.join(sorted(EXCHANGES))}: "
                "use reduce = workgroup or invocation"
            )
        if reduce != "invocation" and self.invocations % size:
            yield (
                f"workgroup = {self.invocations} is not a multiple of the subgroup size {size}: "
                f"use {ceil_div(self.invocations, size) * size}"
            )


def choose_loops(dispatch: DispatchOp, target: Target, pass_name: str) -> LoopsAttr:
    """
    Chooses the schedule of a dispatch without a contraction.

    Refuses operations that cannot be lowered to loops.
    """
    try:
        _, results = results_of_dispatch(dispatch)
        nests = nests_of(results)
    except NotLoops as error:
        refuse(pass_name, error.op, str(error))
    elements = [array.element for nest in nests for array, _ in nest.results]
    if not nests or not all(isinstance(element, FixedBitwidthType) for element in elements):
        # A later pass refuses element types without a fixed size.
        return LoopsAttr(1, 1)
    tiled = _tile_schedule(nests[0], target) if len(nests) == 1 else None
    chosen = tiled or _widest(nests, target)
    if target.idle_subgroups or not any(_may_idle(nest, chosen) for nest in nests):
        return chosen
    return _of_single_subgroups(chosen, target)


def _may_idle(nest: Nest, schedule: LoopsAttr) -> bool:
    """
    True if a kernel with unconditional inner loops may have idle subgroups.

    Drivers transform such loops in a way that may let idle invocations execute them. With static
    sizes, no idle subgroup is launched. Loops over a row that a subgroup shares are conditional.
    """
    if not any(map(is_dynamic, nest.shape)):
        return False
    shared = schedule.reduce.data != "invocation"
    for loops, _ in reductions_of(nest):
        sizes = [size for size in loops.reduced if size != 1]
        if len(sizes) > 1 or (sizes and not shared and not any(map(is_dynamic, sizes))):
            return True
    return False


def _of_single_subgroups(schedule: LoopsAttr, target: Target) -> LoopsAttr:
    if schedule.reduce.data == "workgroup":
        return schedule
    size = target.subgroup_size
    groups = _groups(schedule.workgroups.data * schedule.workgroup.data, size, target)
    return schedule.replace_values(workgroup=size, workgroups=groups, tile=1)


def _tile_schedule(nest: Nest, target: Target) -> LoopsAttr | None:
    """Returns a schedule of tiles if loads and stores run along different loops, else None."""
    if typical(prod(nest.shape)) < target.model.loops.many * _busy(target):
        return None
    workgroup = target.model.loops.large_workgroup
    if target.processor or target.max_invocations < workgroup:
        return None
    elements = [array.element for array, _ in nest.results]
    if any(
        element not in IN_WORKGROUP or not IN_WORKGROUP[element] <= target.features
        for element in elements
    ):
        return None
    # A subgroup's row of 32 small elements would be shorter than one memory transfer.
    tile = 32 if max(map(bit_width, elements)) >= 32 else 64
    axes = crossing(nest, tile)
    if axes is None:
        return None
    first, last = axes
    along = prod(nest.shape[axis] for axis in first), nest.shape[last]
    if any(typical(extent) < tile // 2 for extent in along):
        return None
    tiles = typical(prod(tile_grid(nest, axes, tile)))
    return LoopsAttr(workgroup, _groups(tiles, 1, target), tile=tile)


def _widest(nests: Sequence[Nest], target: Target) -> LoopsAttr:
    """
    Returns one schedule for all nests, with the widest reduction and the largest number of
    workgroups that a nest needs.
    """
    order = ("invocation", "subgroup", "workgroup")
    schedules = [_choose(nest, target) for nest in nests]
    chosen = max(schedules, key=lambda schedule: order.index(schedule.reduce.data))
    workgroups = max(
        _groups(schedule.workgroups.data * schedule.workgroup.data, chosen.workgroup.data, target)
        for schedule in schedules
    )
    elements = min(schedule.elements.data for schedule in schedules)
    if chosen.reduce.data == order[0]:
        # Vectors as in the largest nest, if all nests allow them. A small nest alone would use
        # narrower vectors and more invocations.
        counts = [typical(prod(nest.shape)) for nest in nests]
        largest = schedules[counts.index(max(counts))].elements.data
        if all(_takes(nest, largest) for nest in nests):
            elements = largest
    rows = chosen.rows.data if len(schedules) == 1 else 1
    return chosen.replace_values(workgroups=workgroups, elements=elements, rows=rows, tile=1)


def _takes(nest: Nest, width: int) -> bool:
    if not nest.shape or not _loads_vectors(nest) or not is_run(nest.shape, width):
        return False
    return width * _bits(nest, typical(prod(nest.shape))) <= MOST_BITS


def _choose(nest: Nest, target: Target) -> LoopsAttr:
    reductions = reductions_of(nest)
    columns = dimensions_along_rows(nest)
    rows = typical(prod(_row_sizes(nest)))
    model, busy = target.model.loops, _busy(target)
    totals = [prod(loops.reduced) for loops, _ in reductions]
    longest = max(map(typical, totals), default=1)
    splits = all(combinations_of(loops) is not None for loops, _ in reductions)
    strided = _is_strided(reductions, rows, model.short)
    beside = strided or target.processor or longest < model.long
    # Every reduction of a kernel reads memory again, which several invocations do at once.
    steps = sum(map(typical, totals)) if strided and not target.processor else longest
    if steps < model.short or not splits or (rows >= 4 * busy and beside):
        return _alone(nest, rows, longest, target)
    if strided:
        side_by_side = _side_by_side(nest, rows, longest, target)
        if side_by_side is not None:
            return side_by_side
    size = target.subgroup_size
    totals += [prod(nest.shape[axis] for axis in columns)] if columns else []
    bits = _bits(nest, rows * longest)
    # A CPU waits at every barrier, since it has no other subgroups to run meanwhile.
    again = len(totals) > 1 and rows * longest * bits // 8 > model.cached
    again = again and not target.processor
    if EXCHANGES & target.features and (rows * size >= busy or longest <= 2 * size):
        if not again or longest <= 2 * KEPT * size:
            workgroup = max(size, min(model.workgroup, target.max_invocations) // size * size)
            groups = _groups(rows * size, workgroup, target)
            elements = _neighbours(rows, totals, size, bits, target)
            return LoopsAttr(workgroup, groups, elements, reduce="subgroup")
    limit = min(target.max_invocations, MOST_SUBGROUPS * size)
    # Enough invocations to hold the row in registers.
    least = 0 if again else min(longest, model.large_workgroup)
    most = min(max(least, ceil_div(longest, KEPT)), limit)
    workgroup = max(size, min(ceil_div(most, size), limit // size) * size)
    elements = _neighbours(rows, totals, workgroup, bits, target)
    return LoopsAttr(workgroup, _groups(rows, 1, target), elements, reduce="workgroup")


def _is_strided(reductions: list[tuple[Loops, frozenset[int]]], rows: int, short: int) -> bool:
    """
    True if neighbouring rows are contiguous in memory, and the reduced elements are not.

    Considers only arrays of at least `rows` * `short` elements. If there are none, considers arrays
    of at least `rows` elements.
    """
    for size in (rows * short, rows):
        reduced = [
            loops.reduction[axis]
            for loops, _ in reductions
            for axis in fast_loops(loops, size)
            if axis is not None
        ]
        if reduced:
            return not any(reduced)
    return False


def _side_by_side(nest: Nest, rows: int, longest: int, target: Target) -> LoopsAttr | None:
    """
    Returns a schedule in which neighbouring invocations read neighbouring rows. `longest` is the
    largest number of elements in a row. Returns None if such a schedule does not pay.
    """
    model, busy = target.model.loops, _busy(target)
    if rows >= busy:
        return _alone(nest, rows, longest, target)
    last = next((size for size in reversed(_row_sizes(nest)) if size != 1), 1)
    if typical(last) < model.least_beside:
        return None
    bits = _bits(nest, rows * longest)
    elements = 1
    if rows * longest >= model.many * busy * max(WIDTHS):
        elements = next(n for n in (4, 2, 1) if is_multiple(last, n) and n * bits <= MOST_BITS)
    limit = min(target.max_invocations, MOST_SUBGROUPS * target.subgroup_size)
    beside = model.beside_bits // (bits * elements)
    if 2 * ceil_div(rows, beside * elements) < target.compute_units:
        beside //= 2
    if model.few * ceil_div(rows, beside * elements) < min(rows, target.compute_units):
        return None
    lanes = 1
    while lanes * 2 * model.least_steps <= longest and lanes * 2 * beside <= limit:
        if lanes * rows >= model.many * busy * elements:
            break
        lanes *= 2
    while lanes * beside < target.subgroup_size:
        lanes *= 2
    if lanes * beside > limit:
        return None
    groups = _groups(ceil_div(rows, elements), beside, target)
    return LoopsAttr(lanes * beside, groups, elements, beside, reduce="workgroup")


def _alone(nest: Nest, rows: int, longest: int, target: Target) -> LoopsAttr:
    model, busy = target.model.loops, _busy(target)
    elements = 1
    if nest.shape and _loads_vectors(nest):
        bits = _bits(nest, rows)
        room = model.windows_held * (target.held_registers or inf)
        runs = (w for w in WIDTHS if is_run(nest.shape, w) and w * bits <= MOST_BITS)
        elements = next((w for w in runs if 2 * w * longest <= room and rows >= w * busy), 1)
    units = rows // elements
    large = units >= model.many * busy and longest < model.short
    alone = min(model.large_workgroup if large else model.workgroup, target.max_invocations)
    return LoopsAttr(alone, _groups(units, alone, target), elements)


def _loads_vectors(nest: Nest) -> bool:
    """
    True if neighbouring elements of the last dimension read neighbouring elements of each operand.

    Reductions must be short, and must not index this dimension in another way.
    """
    for loops, _ in reductions_of(nest):
        steps = prod(loops.reduced)
        if is_dynamic(steps) or steps > UNROLLED_BESIDE or not loops.output_maps[0].results:
            return False
        last = loops.output_maps[0].results[-1]
        for map in loops.input_maps:
            if not map.results or map.results[-1] != last:
                return False
            if any(last in expr.dfs() for expr in map.results[:-1]):
                return False
    return True


def _neighbours(rows: int, totals: list[Size], lanes: int, bits: int, target: Target) -> int:
    """
    Returns the vector width, in elements, in which each of `lanes` invocations reads a row.
    `totals` are the numbers of elements in the rows of each reduction.
    """
    many = target.model.loops.many * _busy(target) * max(WIDTHS)
    if rows * max(map(typical, totals)) < many:
        return 1
    most = min(MOST_BITS // bits, *(typical(total) // lanes for total in totals))
    widths = (width for width in WIDTHS if width <= most)
    return next((w for w in widths if all(is_multiple(total, w) for total in totals)), 1)


def _row_sizes(nest: Nest) -> list[Size]:
    """Returns the sizes of a loop nest's dimensions that do not run along its rows."""
    columns = dimensions_along_rows(nest)
    return [size for axis, size in enumerate(nest.shape) if axis not in columns]


def _bits(nest: Nest, size: int) -> int:
    arrays = [array for array, _ in nest.results]
    seen = set(arrays)
    for array in arrays:
        arrays += [source for source in sources_of(array) if source not in seen]
        seen.update(arrays)
    moved = [array for array in arrays if isinstance(array, Stored)]
    moved += [array for array, _ in nest.results]
    widths = [bit_width(stored.element) for stored in moved if typical(prod(stored.shape)) >= size]
    # A boolean is stored as a 32-bit word.
    return max((bits if bits >= 8 else 32 for bits in widths), default=32)


def _busy(target: Target) -> int:
    return target.model.loops.busy * target.compute_units


def _groups(units: int, size: int, target: Target) -> int:
    return max(1, min(-(-units // size), target.max_grid[0], MOST_INVOCATIONS // size))
