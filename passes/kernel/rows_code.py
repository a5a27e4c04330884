"""
Writes kernels of contractions with few rows: every load of the streamed operand serves all rows.

    scf.for %k = loads along K, divided among the lanes of a subgroup
      %w = load ..., %x = load ...                     loads of all columns precede
      %sum[row][column] += %x[row] * %w[column]        the multiply-adds
    add up the sums of the lanes, and of the subgroups through Workgroup memory
    store the sums

See passes/schedule/rows.py for the division of the work. The main loop has no bounds checks: a
column beyond the result is replaced by column 0, and the sum of that column is not stored. A
separate loop multiplies the units (loads) that remain after the last whole step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial, reduce
from itertools import product
from math import prod

from xdsl.dialects import gpu
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic, is_multiple
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.computed_elements import ComputedOperand, Point
from xdsl_spirv.passes.kernel.elements import ElementCode, convert_factor
from xdsl_spirv.passes.kernel.result_tile import BatchTile
from xdsl_spirv.passes.kernel.row_sums import RowSums
from xdsl_spirv.passes.kernel.subgroup_reduction import reduce_by_halves, reduce_subgroup
from xdsl_spirv.passes.kernel.unit_sums import DigitSums, RowsCode, UnitSums
from xdsl_spirv.passes.schedule.rows import QUAD, RowsPlan


class RowsKernel(RowsCode):
    """Writes a kernel of a contraction with few rows. A unit is the elements of one load."""

    def __init__(self, b: HoistingEmitter, plan: RowsPlan):
        self.b, self.plan = b, plan
        contraction = plan.contraction
        self.type = plan.sums.type
        self.stream, self.few = self._operands()
        self.count = plan.schedule.rows.data, plan.schedule.columns.data
        along, across = plan.schedule.grid
        subgroup = b.subgroup_id(along * across)
        self.part_of_k = b.remainder(subgroup, along)
        self.subgroup_column = b.divided(subgroup, along)
        size = plan.target.subgroup_size
        self.lane = b.lane_id(size)
        self.lane_of_k = b.remainder(self.lane, plan.lanes)
        self.lane_column = b.divided(self.lane, size // plan.beside)
        self.part = b.plus(b.times(self.part_of_k, plan.lanes), self.lane_of_k)
        self.row = b.times(b.block_id(gpu.DimensionEnum.X, "tile_row"), plan.tile[0])
        if plan.row_tiles == 1:
            self.row = 0
        self.column = b.times(b.block_id(gpu.DimensionEnum.Y, "tile_column"), plan.tile[1])
        batched = contraction.batch != 1
        self.batch: Index = b.block_id(gpu.DimensionEnum.Z, "batch") if batched else 0
        self.row_sums = RowSums(b, plan, self._over_subgroup)
        self.first: Index = 0
        """First column of the current group, relative to the workgroup's tile."""

    def _operands(self) -> tuple[ComputedOperand, ComputedOperand]:
        plan = self.plan
        beside = {plan.reduced[-1]: QUAD} if plan.digits.are_shared else plan.unit
        streamed = plan.streamed
        few = ComputedOperand(self.b, plan, 1 - streamed, beside)
        keeps = plan.schedule.digits.data > 0
        return ComputedOperand(self.b, plan, streamed, plan.unit, keeps), few

    def emit(self) -> None:
        b, plan = self.b, self.plan
        groups = plan.schedule.groups.data
        if plan.is_stationary:
            ahead = min(plan.schedule.ahead.data, groups)
            first = [value for group in range(ahead) for value in self._read(group)]
            parts = self._share_digits() if plan.digits.are_shared else self._parts_of_own_units()
            parts = parts or self._write_row_sums()
            read = b.loop(groups - ahead, 1, first, self._read_and_add, "group")
            size = len(read) // ahead
            for number in range(ahead):
                own = read[number * size : (number + 1) * size]
                self._add_group(groups - ahead + number, own)
            self.row_sums.write(parts)
        else:
            self._write_row_sums()
            b.loop(groups, 1, (), self._add_group, "group")
        if plan.sums.meets_in_memory:
            b.barrier()
            self._add_up()

    def _parts_of_own_units(self) -> list[SSAValue] | None:
        """Returns partial row sums of the elements that the products read; None if impossible."""
        plan = self.plan
        alone = plan.lanes == plan.target.subgroup_size and plan.schedule.grid[1] == 1
        if not self.row_sums.placed or not alone or not plan.sums.meets_in_memory:
            return None
        rows, _ = self._points()
        units = [
            ([shifted(self.places_of(unit), offset) for offset in self._offsets()], exists)
            for unit, exists in self._own_units()
        ]
        return self.row_sums.parts_of_units(self.few, rows, units)

    def _share_digits(self) -> list[SSAValue] | None:
        """Stores the rows' base-256 digits for all invocations; returns partial row sums."""
        rows, _ = self._points()
        shared = self.shared_digits
        shared.write(rows)
        parts: list[SSAValue] | None = None
        if self.row_sums.placed and self.plan.sums.meets_in_memory:
            parts = self.row_sums.parts_of_units(self.few, rows, shared.own)
        self.b.barrier()
        return parts

    def _write_row_sums(self) -> list[SSAValue]:
        """
        Stores the epilogue's row sums, with a barrier if no later barrier follows.

        Returns an empty list: no partial sums are left.
        """
        if self.row_sums.placed:
            rows, _ = self._points()
            self.row_sums.write(self.row_sums.parts(rows))
            if not self.plan.sums.meets_in_memory:
                self.b.barrier()
        return []

    # Groups of columns

    def _read_and_add(self, group: Index, read: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """
        Loads a later group of columns. Then adds the products of the columns in `group`, whose
        loads are the first in `read`. Returns the loads not yet used.
        """
        ahead = self.plan.schedule.ahead.data
        following = self._read(self.b.plus(group, ahead))
        size = len(following)
        self._add_group(group, read[:size])
        return [*read[size:], *following]

    def _read(self, group: Index) -> Sequence[SSAValue]:
        self._begin(group)
        return [self.b.load_once(memory, (number,)) for memory, number in self._own_sources()]

    def _begin(self, group: Index) -> None:
        self.first = self.b.times(group, self.plan.group_columns)
        self.points = self._points()

    def _own_sources(self) -> list[tuple[SSAValue, Index]]:
        """Lists the invocation's loads for the current columns, without duplicates."""
        places = [self.places_of(unit) for unit, _ in self._own_units()]
        return list(dict.fromkeys(self._sources(places, self.points[1])))

    def _sources(
        self, places: Sequence[Point], columns: Sequence[Point]
    ) -> Iterator[tuple[SSAValue, Index]]:
        for place in places:
            for column in columns[:: self.plan.side_by_side]:
                for offset in self._offsets():
                    yield from self.stream.sources(column | shifted(place, offset))

    def _add_group(self, group: Index, read: Sequence[SSAValue]) -> None:
        self._begin(group)
        if read:
            for (memory, number), value in zip(self._own_sources(), read, strict=True):
                self.b.know_loaded(value, memory, number)
        plan, totals = self.plan, self._sums(self.points)
        take = self._put if plan.sums.meets_in_memory else self._store
        if plan.sums.in_subgroup:
            self._add_up_lanes(totals, take)
            return
        for number, total in enumerate(totals):
            take(number // self.count[1], self._column(number % self.count[1]), total)

    # Places

    def _column(self, number: int) -> Index:
        b, plan = self.b, self.plan
        width = plan.side_by_side
        own = self.count[1] // width
        group = b.plus(b.times(self.subgroup_column, own), number // width)
        place = b.plus(b.times(group, plan.beside), self.lane_column)
        return b.plus(self.first, b.plus(b.times(place, width), number % width))

    def _loops(self, loops: range, number: Index) -> dict[int, tuple[Index, int]]:
        sizes = [self.plan.contraction.sizes[loop] for loop in loops]
        indices = self.b.delinearized(number, sizes)
        return {loop: (index, 0) for loop, index in zip(loops, indices, strict=True)}

    def _inside(self, number: Index, size: Size, tile: int) -> Condition:
        return is_multiple(size, tile) or self.b.below(number, size)

    def _clamped(self, number: Index, size: Size, tile: int) -> Index:
        return self.b.index_inside(self._inside(number, size, tile), number)

    def _in_turns_of_parts(self, number: Index) -> Index:
        """Converts a column's index (counted as in `ColumnReaders`) to the operand's column."""
        b, readers = self.b, self.plan.readers
        if readers is None or readers.parts == 1:
            return number
        width, row = readers.parts * readers.columns, 0
        if width != self.plan.columns:
            row, number = b.times(b.divided(number, width), width), b.remainder(number, width)
        part = b.times(b.remainder(number, readers.parts), readers.columns)
        return b.plus(row, b.plus(b.divided(number, readers.parts), part))

    def _points(self) -> tuple[list[Point], list[Point]]:
        plan, b = self.plan, self.b
        batch = self._loops(plan.contraction.groups[0], self.batch)
        rows = [
            batch
            | self._loops(
                plan.row_loops,
                self._clamped(b.plus(self.row, row), plan.rows, plan.tile[0]),
            )
            for row in range(self.count[0])
        ]
        columns: list[Point] = []
        width = plan.side_by_side
        for number in range(0, self.count[1], width):
            first = b.plus(self.column, self._column(number))
            if plan.schedule.within.data > 1 and not is_dynamic(plan.columns):
                # A bound: the driver sees that no offset is negative, and adds constants to one
                # address instead of computing an address for each load.
                first = b.remainder(first, 1 << (plan.columns - 1).bit_length())
            number_of_column = self._clamped(first, plan.columns, plan.tile[1])
            place = self._loops(plan.column_loops, self._in_turns_of_parts(number_of_column))
            columns.append(batch | place)
            for i in range(1, width):
                last = plan.column_loops[-1]
                columns.append(batch | place | {last: (place[last][0], i)})
        return rows, columns

    # The sums

    def _sums(self, points: tuple[list[Point], list[Point]]) -> Sequence[SSAValue]:
        b, plan = self.b, self.plan
        stride, steps = plan.sums.parts, plan.schedule.steps.data
        totals: Sequence[SSAValue] = [b.zero(self.type)] * prod(self.count)
        if plan.is_stationary:
            return self._multiply(self._own_units(), points, totals)
        whole = plan.units // (stride * steps) * (stride * steps)

        def trip(first: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            first = b.plus(first, self.part)
            units = [(b.plus(first, i * stride), True) for i in range(steps)]
            return self._multiply(units, points, carried)

        if whole != 0:
            unrolled = plan.schedule.within.data > 1
            totals = b.loop(whole, stride * steps, totals, trip, "k", unrolled=unrolled)
        if is_multiple(plan.units, stride * steps):
            return totals

        def rest(first: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            unit = b.plus(first, self.part)
            inside = b.below(unit, plan.units)
            multiply = partial(self._multiply, [(unit, True)], points, carried)
            if isinstance(inside, bool):
                return multiply()
            return b.choose(inside, multiply, lambda: carried)

        return b.loop(plan.units, stride, totals, rest, "rest", lower=whole)

    def _own_units(self) -> list[tuple[Index, Condition]]:
        """
        Returns two values for each load along K of this invocation: the index of the unit to load,
        and the condition that a unit with this index exists.
        """
        b, plan = self.b, self.plan
        units = [b.plus(self.part, i * plan.sums.parts) for i in range(plan.schedule.steps.data)]
        inside = [b.below(unit, plan.units) for unit in units]
        return [
            (b.index_inside(exists, unit), exists)
            for unit, exists in zip(units, inside, strict=True)
        ]

    def _multiply(
        self,
        units: Sequence[tuple[Index, Condition]],
        points: tuple[list[Point], list[Point]],
        totals: Sequence[SSAValue],
    ) -> Sequence[SSAValue]:
        """
        Returns `totals` plus the products of some units (loads along K); loads come first.

        A unit that does not exist reads unit 0, and its products are discarded.
        """
        _, columns = points
        places = [self.places_of(unit) for unit, _ in units]
        for memory, number in self._sources(places, columns):
            self.b.load_once(memory, (number,))
        results = list(totals)
        for place, (unit, exists) in zip(places, units, strict=True):
            before = list(results)
            kind = DigitSums if self.plan.schedule.digits.data else UnitSums
            sums = kind(self, results)
            sums.add([shifted(place, o) for o in self._offsets()], points, unit)
            results = [self.b.select(exists, *pair) for pair in zip(results, before, strict=True)]
        return results

    def _offsets(self) -> list[dict[int, int]]:
        """
        Returns the offsets of the elements in one load that an invocation multiplies. If lanes
        differ, returns the offsets of lane 0.
        """
        plan = self.plan
        taken = {digit.loop: digit.count * digit.scale for digit in self.plan.lane_digits}
        steps = [range(0, plan.unit.get(loop, 1), taken.get(loop, 1)) for loop in plan.reduced]
        return [dict(zip(plan.reduced, places, strict=True)) for places in product(*steps)]

    # The result

    def _over_subgroup(self, value: SSAValue) -> SSAValue:
        return reduce_subgroup(self.b, value, self.plan.target, self._addition, self.plus)

    def _put(self, row: Index, column: Index, total: SSAValue) -> None:
        b, (rows, columns) = self.b, self.plan.tile
        part = self.part_of_k if self.plan.sums.in_subgroup else self.part
        place = b.plus(b.times(row, columns), column)
        b.store(total, self.memory, [b.plus(b.times(part, rows * columns), place)])

    def _add_up(self) -> None:
        plan, b = self.plan, self.b
        rows, columns = plan.tile
        together = plan.together
        results = rows * columns // together
        invocation = b.thread_id(plan.invocations)
        for start in range(0, results, plan.invocations):
            number = b.plus(invocation, start)

            def add_up(number: Index = number) -> None:
                first = b.times(number, together)
                totals = [self._added_up(b.plus(first, i)) for i in range(together)]
                self._store(b.divided(first, columns), b.remainder(first, columns), *totals)

            b.when(b.below(number, results), add_up)

    def _added_up(self, number: Index) -> SSAValue:
        b, results = self.b, prod(self.plan.tile)
        places = [b.plus(number, part * results) for part in range(self.plan.sums.partial)]
        return reduce(self.plus, [b.load(self.memory, [place]) for place in places])

    @cached_property
    def memory(self) -> SSAValue:
        """Workgroup memory of the partial sums."""
        count = self.plan.sums.partial * prod(self.plan.tile)
        return self.b.allocate(self.type, [count], "partial")

    def _add_up_lanes(
        self, totals: Sequence[SSAValue], take: Callable[[Index, Index, SSAValue], None]
    ) -> None:
        """
        Adds up the totals of all lanes. Calls take(row, column, total) in one lane for each sum,
        with row and column in the workgroup's tile.
        """
        b, size = self.b, self.plan.target.subgroup_size
        if self.plan.sums.in_halves:
            total = reduce_by_halves(b, totals, self.lane, size, self.plus)
            share = size // len(totals)
            at = self._place_of_sum(b.divided(self.lane, share))
            is_first = b.below(b.remainder(self.lane, share), 1)
            b.when(is_first, partial(take, *at, total))
            return
        totals = [self._over_subgroup(total) for total in totals]
        for start in range(0, len(totals), size):
            group = totals[start : start + size]
            own = group[-1]
            for place in reversed(range(len(group) - 1)):
                own = b.select(b.below(self.lane, place + 1), group[place], own)
            at = self._place_of_sum(b.plus(self.lane, start))
            b.when(b.below(self.lane, len(group)), partial(take, *at, own))

    def _place_of_sum(self, number: Index) -> tuple[Index, Index]:
        """Returns row and column of the subgroup's sum `number` in the workgroup's tile."""
        b, columns = self.b, self.count[1]
        row, place = b.divided(number, columns), b.remainder(number, columns)
        return row, b.plus(self.first, b.plus(b.times(self.subgroup_column, columns), place))

    def _store(self, in_tile: Index, column: Index, *totals: SSAValue) -> None:
        """Stores the sums of neighbouring columns of a row, if row and column exist."""
        b, plan, tile = self.b, self.plan, self.plan.tile
        row, number = b.plus(self.row, in_tile), b.plus(self.column, column)
        in_columns = self._inside(number, plan.columns, tile[1])
        inside = b.both(in_columns, self._inside(row, plan.rows, tile[0]))
        b.when(inside, partial(self._store_inside, row, number, totals, in_tile))

    def _store_inside(
        self, row: Index, column: Index, totals: Sequence[SSAValue], in_tile: Index
    ) -> None:
        plan = self.plan
        if plan.streamed == 0:
            row, column = column, row
        columns = [self._in_turns_of_parts(self.b.plus(column, i)) for i in range(len(totals))]
        type = plan.contraction.element_types[2]
        finished = [convert_factor(self.b, total, type, True) for total in totals]
        code, sums = self.result, self.row_sums.at(in_tile)
        readers, source = plan.readers, plan.contraction.epilogue.source
        if readers is None or source is None:
            code.store(row, column, finished[0], sums)
            return
        from xdsl_spirv.passes.kernel.column_readers_code import store_readers

        values = [
            code.value(source, row, own, total, sums)
            for own, total in zip(columns, finished, strict=True)
        ]
        b, columns = self.b, plan.columns
        number = b.plus(b.times(self.batch, plan.rows), row)
        store_readers(b, readers, b.plus(b.times(number, columns), column), values)

    @cached_property
    def result(self) -> ElementCode:
        """Epilogue code of one result element."""
        return ElementCode(self.b, self.plan.contraction, BatchTile(self.b, self.batch), 1)


def shifted(place: Point, offset: dict[int, int]) -> Point:
    """Returns a position that is moved by a constant offset for each loop."""
    return {loop: (first, offset.get(loop, 0)) for loop, (first, _) in place.items()}
