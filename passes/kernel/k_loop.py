"""
Writes the code that all contractions on tiles share: K loop, operands and tile positions.

    schedule.collective {                      scf.for %k = 0 to K step TK iter_args(accumulators)
      linalg.fill ins(%0) outs(%d)      ->       stage A and B in Workgroup memory; gpu.barrier
      linalg.generic ins(%a, %b) ...             add the product of A and B to the accumulators
    }                                          store the accumulators

A `Core` multiplies tiles and assigns parts of the result to invocations. There is one core for
each instruction that a schedule may name. The schedule makes all choices; a contraction that does
not fit its schedule is refused.

In the loop along K, tiles pass through the stages of the schedule's `Pipeline`. With several
buffers or register sets, an iteration multiplies several tiles, so that each tile has a fixed
buffer. The loop carries the values that wait in registers and the fragments that are loaded ahead.
If the number of tiles is dynamic, the loop reads the first tile again after the last one and
ignores the values. If no stage runs ahead, a last tile that exceeds K is multiplied after the
loop; the tiles in the loop then need no bounds check along K.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects import gpu
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import CollectiveOp, PackOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic, static
from xdsl_spirv.passes.analysis.contraction import storage
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.result_tile import Part, Place
from xdsl_spirv.passes.kernel.staging import DirectOperand, Operand, StagedOperand, TileInMemory
from xdsl_spirv.passes.schedule.pipeline import Stage
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.tiles import StagedTile, UnitTile

if TYPE_CHECKING:
    from xdsl_spirv.passes.schedule.packing import PackPlan

Values: TypeAlias = Sequence[SSAValue]


class Core(ABC):
    """Multiplies tiles of the operands, for an invocation's or subgroup's part of the result."""

    @abstractmethod
    def begin(self) -> Values:
        """Returns the initial accumulators, which are 0."""

    @abstractmethod
    def multiply(self, a: Operand, b: Operand, carried: Values) -> Values:
        """Multiplies one K tile and returns the new accumulators."""

    @abstractmethod
    def end(self, totals: Values, operands: Sequence[Operand]) -> None:
        """Applies the epilogue and stores the results. May overwrite the operands' tiles."""


class FragmentCore(Core):
    """A core that can load fragments ahead of their multiplication."""

    @abstractmethod
    def load(self, a: Operand, b: Operand) -> Iterable[Values]:
        """Yields A's and B's fragments of a K tile, one instruction's step along K at a time."""

    @abstractmethod
    def multiply_fragments(self, loaded: Iterable[Values], carried: Values) -> Values:
        """
        Adds the products of the loaded fragments of a K tile to the accumulators `carried`. Returns
        the new accumulators.
        """

    def multiply(self, a: Operand, b: Operand, carried: Values) -> Values:
        return self.multiply_fragments(self.load(a, b), carried)


@dataclass
class _State:
    """Loop-carried values that do not belong to an operand."""

    totals: Values
    fragments: Values
    registers: list[SSAValue]


class KLoop:
    """Writes the code that multiplies all K tiles."""

    def __init__(
        self, builder: KernelEmitter, plan: Plan, core: Core, operands: tuple[Operand, Operand]
    ):
        self.builder, self.plan, self.core, self.operands = builder, plan, core, operands
        self.pipeline = plan.pipeline
        self.size, self.tile = plan.contraction.k, plan.schedule.tile[2]
        self.staged = [operand for operand in operands if isinstance(operand, TileInMemory)]
        self.direct = [operand for operand in operands if isinstance(operand, DirectOperand)]
        self.ahead = [operand for operand in self.direct if operand.ahead]
        self.per_tile = sum(operand.waiting for operand in self.staged)
        self.per_step = sum(plan.schedule.fragments[:2])

    def write(self, accumulators: Values) -> Values:
        """Writes prologue, loop and remainder; returns the final accumulators."""
        self.totals = len(accumulators)
        state, unroll = self._begin(accumulators), self.pipeline.unroll
        if unroll > 1:
            (size,) = static([self.size])
            count = ceil_div(size, self.tile)
            whole = count // unroll * unroll
            if whole:
                state = self._loop(whole * self.tile, state, count - whole + unroll)
            for number in range(count - whole):
                state = self._multiply(whole * self.tile, number, state, count - whole, True)
            return state.totals
        if not self.plan.ends_apart:
            return self._loop(self.size, state, 1).totals
        whole = self.size // self.tile * self.tile
        for operand in self.operands:
            operand.within_k = True
        state = self._loop(whole, state, 1)
        for operand in self.operands:
            operand.within_k = False
        return self._multiply(whole, 0, state, 1, True).totals

    def _begin(self, accumulators: Values) -> _State:
        """Writes the prologue, which loads and copies the first tiles before the loop."""
        pipeline = self.pipeline
        for operand in self.ahead:
            operand.begin_ahead()
        if pipeline.write:
            self._use(0)
            self._store(self._load(0), 0)
        places = [n * self.tile for n in range(pipeline.write, pipeline.read)]
        within = [at if is_dynamic(self.size) or at < self.size else 0 for at in places]
        registers = [value for at in within for value in self._load(at)]
        if pipeline.write:
            self.builder.barrier()
        return _State(accumulators, self._fragments() if pipeline.load else (), registers)

    def _loop(self, end: Size, state: _State, room: int) -> _State:
        """Writes the loop up to `end`. In each iteration, at least `room` tiles are left."""
        pipeline, tile = self.pipeline, self.tile
        fragments = len(state.fragments)

        def trip(k: Index, carried: Values) -> Values:
            now = self._unpack(carried, fragments)
            for number in range(pipeline.unroll):
                now = self._multiply(k, number, now, room)
            return self._pack(now)

        step = pipeline.unroll * tile
        carried = self.builder.loop(end, step, self._pack(state), trip, "k")
        return self._unpack(carried, fragments)

    def _pack(self, state: _State) -> list[SSAValue]:
        read_ahead = [value for operand in self.ahead for value in operand.waiting]
        return [*state.totals, *read_ahead, *state.fragments, *state.registers]

    def _unpack(self, carried: Values, fragments: int) -> _State:
        """
        Unpacks the values that the loop carries: returns the state that `_pack` packed, and
        restores the `waiting` values of the operands.
        """
        values = list(carried)
        totals, values = values[: self.totals], values[self.totals :]
        for operand in self.ahead:
            operand.waiting, values = values[: operand.held], values[operand.held :]
        return _State(totals, values[:fragments], values[fragments:])

    def _multiply(
        self, k: Index, number: int, state: _State, room: int, last: bool = False
    ) -> _State:
        """
        Multiplies the tile that is `number` tiles after `k`, and runs stages of later tiles.

        From `k` on, at least `room` tiles remain; exactly `room` if `last`.
        """
        b, pipeline = self.builder, self.pipeline
        here, following = self._place(k, number), None
        if (pipeline.read or (self.ahead and self.plan.is_looped)) and not (
            last and number + max(1, pipeline.read) >= room
        ):
            following = self._ahead(k, number + max(1, pipeline.read), room)
        registers, fragments, totals = list(state.registers), state.fragments, state.totals
        loaded: Values = ()
        for stage in pipeline.stages:
            ahead = pipeline.tiles_ahead(stage)
            if last and ahead and number + ahead >= room:
                continue
            buffer = (number + ahead) % pipeline.buffers
            match stage:
                case Stage.READ:
                    registers += self._load(following if ahead and following is not None else here)
                case Stage.WRITE:
                    self._use(buffer)
                    moved, registers = registers[: self.per_tile], registers[self.per_tile :]
                    self._store(moved, self._ahead(k, number + ahead, room) if ahead else here)
                case Stage.BARRIER:
                    b.barrier()
                case Stage.LOAD:
                    self._use(buffer)
                    loaded = self._fragments()
                case Stage.MULTIPLY if pipeline.load:
                    assert isinstance(self.core, FragmentCore)
                    size, starts = self.per_step, range(0, len(fragments), self.per_step)
                    steps = [fragments[at : at + size] for at in starts]
                    totals = self.core.multiply_fragments(steps, totals)
                case Stage.MULTIPLY:
                    self._use(buffer)
                    for operand in self.direct:
                        operand.enter(here, following)
                    totals = self.core.multiply(*self.operands, totals)
                case _:
                    raise AssertionError(f"the K loop cannot run the stage {stage}")
        return _State(totals, loaded, registers)

    def _place(self, k: Index, number: int) -> Index:
        return self.builder.plus(self._place(k, number - 1), self.tile) if number else k

    def _ahead(self, k: Index, number: int, room: int) -> Index:
        b, place = self.builder, self._place(k, number)
        return place if number < room else b.select(b.below(place, self.size), place, 0)

    def _fragments(self) -> Values:
        assert isinstance(self.core, FragmentCore)
        return [fragment for step in self.core.load(*self.operands) for fragment in step]

    def _load(self, k: Index) -> list[SSAValue]:
        return [value for operand in self.staged for value in operand.load_all(k)]

    def _store(self, moved: Values, k: Index) -> None:
        waiting = list(moved)
        for operand in self.staged:
            operand.store_all([waiting.pop(0) for _ in range(operand.waiting)], k)

    def _use(self, buffer: int) -> None:
        for operand in self.staged:
            operand.use(buffer)


MakeCore = Callable[[KernelEmitter, Plan, Place], Core]


def write_contraction(
    make_core: MakeCore, builder: KernelEmitter, plan: Plan, collective: CollectiveOp
) -> None:
    """
    Writes the kernel of a contraction whose schedule names an instruction: a * b, and the epilogue.
    """
    place, contraction = _place(builder, plan), plan.contraction
    core = make_core(builder, plan, place)
    a, b = (
        _operand(builder, plan, place, number, storage(value)[0])
        for number, value in enumerate((contraction.a, contraction.b))
    )
    totals = core.begin()
    core.end(KLoop(builder, plan, core, (a, b)).write(totals), (a, b))


def write_pack(builder: KernelEmitter, plan: PackPlan, collective: CollectiveOp) -> None:
    """Writes the kernel that packs an operand."""
    from xdsl_spirv.passes.kernel.packed import pack

    op = collective.body.block.last_op
    assert isinstance(op, PackOp)
    pack(builder, op, plan)


def _operand(b: KernelEmitter, plan: Plan, place: Place, number: int, stored: SSAValue) -> Operand:
    """
    Creates the object that loads A (`number` 0) or B (1) for multiplication. `stored` is the
    operand in memory.
    """
    tile, buffers = (plan.a, plan.b)[number], plan.pipeline.buffers
    part = Part(
        place.batch,
        (place.tile_row, place.tile_column)[number],
        place.invocation,
        plan.invocations,
        place.lane,
        (place.subgroup_row, place.subgroup_column)[number],
        plan.schedule.grid[number],
        plan.schedule.fragments[number],
        place.slice,
        plan.slice_depth,
    )
    if isinstance(tile, UnitTile):
        from xdsl_spirv.passes.kernel.unpacked import UnitFragments

        return UnitFragments(b, tile, part)
    if not isinstance(tile, StagedTile):
        from xdsl_spirv.passes.kernel.packed import PackedOperand

        return PackedOperand(b, stored, tile, part)
    if tile.in_fragments:
        from xdsl_spirv.passes.kernel.packed import StagedFragments

        return StagedFragments(b, stored, tile, part, buffers)
    if tile.unpacking is not None:
        from xdsl_spirv.passes.kernel.unpacked import UnpackedOperand

        return UnpackedOperand(b, tile.unpacking, tile, part, buffers)
    return StagedOperand(b, stored, tile, part, buffers)


def _place(b: KernelEmitter, plan: Plan) -> Place:
    along, across = _tile_place(b, plan)
    row, column = (across, along) if plan.schedule.raster.data == "rows" else (along, across)
    rows, columns = plan.schedule.grid
    subgroup = b.subgroup_id(plan.schedule.subgroup_count)
    in_slice, slice = subgroup, 0
    if plan.schedule.slices > 1:
        in_slice, slice = b.remainder(subgroup, rows * columns), b.divided(subgroup, rows * columns)
    batched = plan.contraction.batch != 1
    return Place(
        batch=b.block_id(gpu.DimensionEnum.Z, "batch") if batched else 0,
        tile_row=row,
        tile_column=column,
        invocation=b.thread_id(),
        subgroup=subgroup,
        lane=b.lane_id(),
        subgroup_row=b.divided(in_slice, columns),
        subgroup_column=b.remainder(in_slice, columns),
        slice=slice,
    )


def _tile_place(b: KernelEmitter, plan: Plan) -> tuple[Index, Index]:
    """
    Returns the workgroup's tile indices: along the raster dimension, and across it.

    With raster groups, consecutive workgroups fill a group across the raster dimension first, so
    that concurrent workgroups read the same parts of both operands.
    """
    by_rows = plan.schedule.raster.data == "rows"
    names = ("tile_column", "tile_row") if by_rows else ("tile_row", "tile_column")
    dimensions = gpu.DimensionEnum.X, gpu.DimensionEnum.Y
    x, y = (b.block_id(*axis) for axis in zip(dimensions, names, strict=True))
    length, width, _ = plan.grid
    group = plan.raster_group
    if group == 1:
        return x, y
    number = b.plus(b.times(y, length), x)
    before = b.times(b.divided(number, group * length), group)
    within = b.remainder(number, group * length)
    along, across = b.divided(within, group), b.remainder(within, group)
    # Groups above 1 require static sizes.
    (width,) = static([width])
    if last := width % group:
        whole = b.below(before, width - last)
        along = b.select(whole, along, b.divided(within, last))
        across = b.select(whole, across, b.remainder(within, last))
    return along, b.plus(before, across)
