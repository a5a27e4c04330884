"""
Writes the code of an invocation for kernels without a contraction.

    schedule.collective {                      scf.for %row = ... in turns among the groups
      linalg.generic (max)              ->       the maximum of the row: lanes, then the group
      linalg.generic (exp(x - max))              the sum of the row
      linalg.generic (sum) ...                   scf.for %column = ... in turns among the lanes
    }                                              load, compute, store

A result's loops are divided into rows and columns: a reduction has one result for each row. Rows
are distributed over groups (an invocation, a subgroup, or a workgroup, as the schedule says),
columns over the invocations of a group. No intermediate buffer is stored: its elements are
computed where they are used (`loops.code`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from xdsl.dialects import arith, gpu, memref
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from xdsl_spirv.dialects.schedule import CollectiveOp, LoopsAttr
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic, is_multiple
from xdsl_spirv.passes import refusals
from xdsl_spirv.passes.analysis.loops_arrays import NotLoops
from xdsl_spirv.passes.analysis.loops_nests import (
    Nest,
    dimensions_along_rows,
    nests_of,
    reductions_of,
)
from xdsl_spirv.passes.analysis.loops_reader import results_of_collective
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.loops.code import LoopsCode
from xdsl_spirv.passes.loops.groups import Lanes, group_of
from xdsl_spirv.passes.loops.tiles import Tiles
from xdsl_spirv.passes.loops.vectors import use_vectors
from xdsl_spirv.passes.schedule.loops_schedule import LoopsPlan

PASS = "loops-to-invocations"
refuse = refusals(PASS)


def distribute(
    builder: HoistingEmitter, plan: LoopsPlan, collective: CollectiveOp
) -> Callable[[], None]:
    """
    Writes the code of an invocation. Returns a function that replaces its loads and stores by
    vector loads and stores.
    """
    schedule = plan.schedule
    alone = schedule.reduce.data == "invocation"
    try:
        reader, results = results_of_collective(collective.body.block)
        if not results:
            refuse(collective, "the kernel writes no buffer")
        code = LoopsCode(builder, reader, schedule.elements.data if alone else 1)
        nests = [_Distribution(code, plan, nest, collective) for nest in nests_of(results)]
        runs = _side_by_side(nests)
        for nest in nests:
            if not any(nest in run for run in runs):
                nest.write()
        for run in runs:
            _write_side_by_side(list(run.items()))
    except NotLoops as error:
        refuse(error.op, str(error))
    return partial(_move_vectors, builder, plan)


def _move_vectors(builder: HoistingEmitter, plan: LoopsPlan) -> None:
    """
    Replaces loads and stores by vector loads and stores. Erases unused operations before and after.
    """
    block = builder.entry
    erase_unused(block)
    use_vectors(builder, block.args, plan.schedule.elements.data)
    erase_unused(block)


EFFECTS = (memref.StoreOp, gpu.BarrierOp)


def erase_unused(block: Block) -> None:
    """
    Erases unused operations that contain neither a store nor a barrier, also in inner blocks.

    xDSL's `dce` does not erase divisions and invocation ids, whose lack of effects is not
    declared.
    """
    for op in list(block.walk(reverse=True, region_first=True)):
        kept = op.has_trait(IsTerminator) or any(isinstance(o, EFFECTS) for o in op.walk())
        if not kept and not any(result.first_use for result in op.results):
            Rewriter.erase_op(op)


def _side_by_side(nests: Sequence[_Distribution]) -> list[dict[_Distribution, int]]:
    """
    Groups small nests that different invocations can compute at the same time. Maps each nest of a
    group to the first of its invocations.
    """
    runs: list[dict[_Distribution, int]] = []
    end = 0
    for nest in nests:
        if (size := nest.small_size) is None:
            continue
        if not runs or end + size > nest.lanes.count:
            runs.append({})
            end = 0
        runs[-1][nest] = end
        end += size
    return [run for run in runs if len(run) > 1]


def _write_side_by_side(run: Sequence[tuple[_Distribution, int]]) -> None:
    """Writes nests in a tree of branches, so that an invocation passes few of them."""
    (nest, first), half = run[0], len(run) // 2
    if not half:
        nest.write_from(first)
        return
    condition = nest.b.below(nest.lanes.number, run[half][1])
    nest.b.when(condition, *(partial(_write_side_by_side, r) for r in (run[:half], run[half:])))


class _Distribution:
    """Distributes the elements of one loop nest over all invocations."""

    def __init__(self, code: LoopsCode, plan: LoopsPlan, nest: Nest, collective: CollectiveOp):
        self.code, self.b, self.nest, self.collective = code, code.b, nest, collective
        self.schedule = schedule = plan.schedule
        self.columns = dimensions_along_rows(nest)
        shape = nest.shape
        self.column_shape = tuple(s for i, s in enumerate(shape) if i in self.columns)
        self.row_shape = tuple(s for i, s in enumerate(shape) if i not in self.columns)
        if schedule.reduce.data != "invocation" and not reductions_of(nest):
            # Without reductions, each invocation computes elements alone.
            schedule = LoopsAttr(schedule.workgroup.data, schedule.workgroups.data)
        self.lanes: Lanes = group_of(self.b, schedule, plan.target)

    def write(self) -> None:
        if self.schedule.tile.data > 1:
            tiles = Tiles(self.code, self.schedule, self.nest, self.collective)
            count = self.schedule.workgroups.data
            workgroup = self.b.block_id(gpu.DimensionEnum.X, "workgroup")
            self._in_turns(tiles.count, workgroup, count, tiles.write)
            return
        if self._by_elements:
            self._in_turns(self._turns, self.lanes.number, self.lanes.count, self._compute)
            return
        rows, lanes = prod(self.row_shape), self.lanes
        if lanes.rows > 1:
            blocks = ceil_div(rows, lanes.rows * self._elements_beside)
            self._in_turns(blocks, lanes.number, lanes.count, self._rows_beside)
            return
        self._in_turns(rows, lanes.number, lanes.count, self._row)

    @property
    def _by_elements(self) -> bool:
        """True if each invocation computes elements alone."""
        return not self.columns and self.lanes.size == self.lanes.rows == 1

    @property
    def _step(self) -> int:
        """Number of neighbouring elements that an invocation computes at a time."""
        step = self.schedule.elements.data
        return step if is_multiple(prod(self.nest.shape), step) else 1

    @property
    def _turns(self) -> Size:
        return prod(self.nest.shape) // self._step

    @property
    def small_size(self) -> int | None:
        """Number of invocations, in whole workgroups, if half of all suffice for the nest."""
        turns = self._turns
        if self.schedule.tile.data > 1 or not self._by_elements or is_dynamic(turns):
            return None
        workgroup = self.schedule.workgroup.data
        size = ceil_div(turns, workgroup) * workgroup
        return size if 2 * size <= self.lanes.count else None

    def write_from(self, first: int) -> None:
        """Lets the invocations from `first` on compute one group of elements each."""
        b = self.b
        # The number is defined in this branch, so that nothing that depends on it leaves it.
        number = b.add(arith.SubiOp(b.index(self.lanes.number), b.index(first)))
        b.when(b.below(number, self._turns), lambda: self._compute(b.assume(number, self._turns)))

    def _compute(self, number: Index) -> None:
        first = self.b.times(number, self._step)
        numbers = [self.b.plus(first, i) for i in range(self._step)]
        self._store([self.b.delinearized(n, self.nest.shape) for n in numbers])

    def _in_turns(
        self, total: Size, number: Index, count: int, body: Callable[[Index], None]
    ) -> None:
        """Calls body(i) for i = `number`, `number` + `count`, ... below `total`."""
        b = self.b
        if not is_dynamic(total) and total <= count:
            below = b.below(number, total)

            def once() -> None:
                body(b.assume(number, total))

            b.when(below, once)
        else:
            b.loop(total, count, (), lambda index, _: body(index), lower=number)

    def _row(self, row: Index) -> None:
        place = self.b.delinearized(row, self.row_shape)
        self._rows(replace(self.lanes, depth=self.b.depth), [place], True)

    def _rows(self, lanes: Lanes, places: Sequence[tuple[Index, ...]], inside: Condition) -> None:
        """Computes the rows at `places` by all invocations of a group."""
        b = self.b
        self.code.group = lanes if lanes.size > 1 or lanes.rows > 1 else None
        if self.columns:
            lanes.in_turn(
                prod(self.column_shape),
                lambda ns, stored: self._store_columns(places, ns, b.both(inside, stored)),
            )
        else:
            self._store(places, inside, alone=True)
        self.code.group = None

    @property
    def _elements_beside(self) -> int:
        """Number of neighbouring rows per invocation; 1 if `elements` does not divide the rows."""
        wide = [size for size in self.row_shape if size != 1]
        elements = self.lanes.elements
        return elements if wide and is_multiple(wide[-1], elements) else 1

    def _rows_beside(self, block: Index) -> None:
        """Computes block `block` of a workgroup's neighbouring rows."""
        b, lanes, elements = self.b, self.lanes, self._elements_beside
        total = prod(self.row_shape)
        number = b.plus(b.times(block, lanes.rows), lanes.row)
        first = b.times(number, elements)
        inside = b.below(first, total)
        first = b.assume(b.index_inside(inside, first), total)
        places = [b.delinearized(b.plus(first, k), self.row_shape) for k in range(elements)]
        beside = {
            indices[0]: indices
            for indices in zip(*places, strict=True)
            if isinstance(indices[0], SSAValue) and len(set(indices)) > 1
        }
        lanes = replace(lanes, depth=b.depth, beside=beside, elements=elements)
        self._rows(lanes, places, inside)

    def _store_columns(
        self,
        places: Sequence[tuple[Index, ...]],
        numbers: Sequence[Index],
        inside: Condition,
    ) -> None:
        points: list[tuple[Index, ...]] = []
        for number in numbers:
            of_columns = self.b.delinearized(number, self.column_shape)
            for place in places:
                columns, rows = iter(of_columns), iter(place)
                points.append(
                    tuple(
                        next(columns) if i in self.columns else next(rows)
                        for i in range(len(self.nest.shape))
                    )
                )
        self._store(points, inside)

    def _store(
        self, points: Sequence[tuple[Index, ...]], inside: Condition = True, alone: bool = False
    ) -> None:
        """
        Computes the elements at all points, then stores them, so that stores stay adjacent.

        With `alone`, only lane 0 stores the elements that its whole group has computed.
        """
        values = [[self.code.element(a, p) for a, _ in self.nest.results] for p in points]

        def store() -> None:
            for point, elements in zip(points, values, strict=True):
                self.code.store(self.nest, point, elements)

        b = self.b
        b.when(b.both(inside, b.below(self.lanes.lane, 1)) if alone else inside, store)


class LoopsToInvocationsPass(KernelPass):
    """Writes the code of kernels that have a `#schedule.loops`."""

    name = "loops-to-invocations"
    codes = {"loops": distribute}
    emitter = HoistingEmitter
