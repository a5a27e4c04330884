"""
Emits products and reductions of tiles, and chooses the homes of tiles: the matrices or the layout
that hold their elements.

Products use the target's matrix instructions, or multiply-adds of each invocation. An operand's
matrices are loaded from its buffer if the tile lies completely inside of the view. If the operand
is held in registers in the layout of these matrices, they are built from the registers. Otherwise
the operand goes through Workgroup memory.

Reductions run in an invocation's registers, then between lanes, then between subgroups. Lanes
exchange values by shuffles if the target has them. The remaining partial results go through
Workgroup memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from xdsl_spirv.dialects import spv, tile
from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.contraction import type_name
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.kernel.elements import convert_factor, multiply_add, run_body
from xdsl_spirv.passes.kernel.matrix_values import load_matrix, moved_bits, multiply_matrices
from xdsl_spirv.passes.kernel.tile_code import (
    PASS,
    Home,
    Layout,
    Matrices,
    Schedule,
    Spot,
    TileEmitter,
    matrices,
)
from xdsl_spirv.passes.kernel.tile_values import (
    LAYOUTS,
    Box,
    Held,
    Moved,
    Stored,
    TileValue,
    corner_of,
    element_of,
    in_matrices,
    join_matrices,
    spots_of,
)


@dataclass(frozen=True)
class Product:
    """Plan of a product on matrix instructions: the matrices of A, B and C."""

    a: Matrices
    b: Matrices
    c: Matrices


def types_of(op: tile.MultiplyAddOp) -> tuple[str, str, str]:
    """Returns the target's names for the element types of A, B and the result."""
    a, c = (type_name(tile.tile_of(value).element, op.unsigned is None) for value in (op.a, op.c))
    return a, a, c


def plan_product(op: tile.MultiplyAddOp, schedule: Schedule) -> Product | None:
    """Plans the matrices of a product; None for multiply-adds. Refuses tiles that do not fit."""
    a, c = tile.tile_of(op.a), tile.tile_of(op.c)
    types = types_of(op)
    target, grid = schedule.target, schedule.grid
    known = target.properties_for(types)
    asked = schedule.instruction
    if asked == "fma" or (asked is None and not known):
        return None
    sizes = (*c.shape, a.shape[1])
    shapes = [p.shape for p in known if asked is None or p.shape == asked]
    if not shapes:
        listed = ", ".join("x".join(map(str, p.shape)) for p in known) or "no matrices"
        asked_shape = "x".join(map(str, asked or ()))
        refuse(
            PASS,
            op,
            f"{target.name} has no {asked_shape} matrices for {types[0]} -> {types[2]}: write "
            f"{listed} or fma",
        )
    steps = [(m * grid[0], n * grid[1], k) for m, n, k in shapes]
    fitting = [shape for shape, step in zip(shapes, steps, strict=True) if _divides(step, sizes)]
    if not fitting:
        step = steps[0]
        nearest = [max(1, round(size / s)) * s for size, s in zip(sizes, step, strict=True)]
        refuse(
            PASS,
            op,
            f"a product of {'x'.join(map(str, sizes))} (M, N, K) is not a multiple of "
            f"{'x'.join(map(str, step))}, which {grid[0]}x{grid[1]} subgroups of {target.name} "
            f"multiply at once: use {'x'.join(map(str, nearest))}, or write "
            'instruction="fma"',
        )
    m, n, k = fitting[0]
    bits = [bit_width(type.element) for type in (a, c)]
    return Product(
        matrices(target, "A", (sizes[0], sizes[2]), (m, k), grid, bits[0]),
        matrices(target, "B", (sizes[2], sizes[1]), (k, n), grid, bits[0]),
        matrices(target, "Acc", (sizes[0], sizes[1]), (m, n), grid, bits[1]),
    )


def _divides(step: Sequence[int], sizes: Sequence[int]) -> bool:
    return all(size % part == 0 for size, part in zip(sizes, step, strict=True))


Operand = Callable[[int, int], SSAValue]
"""Function that returns the subgroup's operand matrix at (row, column)."""


def operand(value: TileValue, wanted: Matrices) -> Operand:
    """Returns an operand's matrices; stages the operand in Workgroup memory if necessary."""
    b, key = value.b, ("operand", value, wanted)
    return b.remembered(key, b.depth, lambda: _operand(value, wanted))


def _operand(value: TileValue, wanted: Matrices) -> Operand:
    b = value.b
    layout = wanted.layout
    if layout is not None and value.home == layout:
        held = join_matrices(value, wanted, layout)
        return lambda i, j: held[i * wanted.counts[1] + j]
    turned = isinstance(value, Moved) and value.is_transpose
    source = value.source if isinstance(value, Moved) and turned else value
    if isinstance(source, Box) and (found := _direct(source, wanted, turned)):
        return found
    bits = bit_width(source.type.element)
    pad = 0 if b.target.processor else 128 // bits
    place = Stored(source, pad).fill()
    b.kept[-1].append(place.memory)

    def load(i: int, j: int) -> SSAValue:
        b.will_read(place.memory)
        return place.matrix(wanted, (i, j), turned)

    return load


def _direct(box: Box, wanted: Matrices, turned: bool) -> Operand | None:
    """
    Returns a function that loads a matrix directly from the buffer, of the transposed tile if
    `turned`. Returns None if elements lie outside of the view or rows are not aligned.
    """
    b, view = box.b, box.view
    if view.is_written or not box.is_inside():
        return None
    stride = box.matrix_stride(wanted.shape[0 if turned else 1])
    if stride is None:
        return None
    type = wanted.type_of(box.type.element)

    def load(i: int, j: int) -> SSAValue:
        places = corner_of(b, wanted, (i, j))
        at, _ = element_of(b, view, box.firsts, places[::-1] if turned else places)
        return load_matrix(b, type, view.buffer, [at], stride, LAYOUTS[turned])

    return load


def multiply(
    op: tile.MultiplyAddOp, plan: Product | None, a: TileValue, b: TileValue, c: TileValue
) -> TileValue:
    """Emits a * b + c and returns the tile."""
    if plan is None:
        return _multiply_elements(op, a, b, c)
    emitter = c.b
    accumulators = in_matrices(c, plan.c)
    left, right = operand(a, plan.a), operand(b, plan.b)
    rows, columns = plan.c.counts
    for depth in range(plan.a.counts[1]):
        lefts = [left(i, depth) for i in range(rows)]
        factors = (right(depth, j) for j in range(columns))
        accumulators = multiply_matrices(emitter, lefts, factors, accumulators, types_of(op))
    return Held(emitter, c.type, plan.c, accumulators)


def _multiply_elements(
    op: tile.MultiplyAddOp, a: TileValue, b: TileValue, c: TileValue
) -> TileValue:
    emitter = c.b
    layout = emitter.schedule.spread(c.type.shape)
    left, right = (Stored(value).fill() for value in (a, b))
    for place in (left, right):
        emitter.will_read(place.memory)
    start = c.in_home(layout)
    element, unsigned = c.type.element, op.unsigned is not None

    def step(k: Index, totals: Sequence[SSAValue]) -> Sequence[SSAValue]:
        factors: dict[object, SSAValue] = {}

        def factor(place: Stored, at: tuple[Index, Index]) -> SSAValue:
            if (place, at) not in factors:
                factors[place, at] = convert_factor(
                    emitter, emitter.load(place.memory, at), element, not unsigned
                )
            return factors[place, at]

        results: list[SSAValue] = []
        for spot, total in zip(spots_of(layout), totals, strict=True):
            row, column = emitter.coordinates(spot)
            x, y = factor(left, (row, k)), factor(right, (k, column))
            results.append(multiply_add(emitter, x, y, total))
        return results

    totals = emitter.loop(a.type.shape[1], 1, start, step, "k")
    for place in (left, right):
        emitter.give_back(place.memory)
    return Held(emitter, c.type, layout, totals)


Numbers = Sequence[SSAValue]
"""One value for each tile of a reduction over several tiles."""


class Reduction:
    """Writes the code of one reduction."""

    def __init__(
        self,
        op: tile.ReduceOp,
        tiles: Sequence[TileValue],
        layout: Layout,
        outside: Callable[[SSAValue], SSAValue],
    ):
        self.op, self.tiles, self.layout, self.outside = op, tiles, layout, outside
        self.b: TileEmitter = tiles[0].b
        self.axis = op.axis.value.data
        self.result = layout.drop_axis(self.axis)
        shuffles = "subgroup-shuffle" in self.b.target.features
        own = [n for n, place in enumerate(layout.lanes) if place[self.axis]]
        self.exchanged = own if shuffles else []
        self.written = [] if shuffles else own

    def write(self) -> list[Held | SSAValue]:
        """Writes the reduction. Returns tiles, or scalars that are uniform in the workgroup."""
        rows: dict[int, Numbers] = {}
        for register, place in enumerate(self.layout.registers):
            row = (*place[: self.axis], *place[self.axis + 1 :])
            number = self.result.numbers[row]
            values = [value.at(Spot(self.layout, register)) for value in self.tiles]
            rows[number] = self._combine(rows[number], values) if number in rows else values
        for bit in self.exchanged:
            rows = {number: self._exchange(values, 1 << bit) for number, values in rows.items()}
        parts = prod(count for count, step in self.layout.groups if step[self.axis])
        parts <<= len(self.written)
        if parts > 1:
            rows = self._through_memory(rows, parts)
        results: list[Held | SSAValue] = []
        for n, output in enumerate(self.op.outputs):
            values = [rows[number][n] for number in range(self.result.count)]
            if isinstance(output.type, tile.TileType):
                results.append(Held(self.b, output.type, self.result, values))
            else:
                results.append(values[0])
        return results

    def _combine(self, a: Numbers, b: Numbers) -> Numbers:
        return run_body(self.op.body.block, (*a, *b), self.outside, self.b.copied)

    def _exchange(self, values: Numbers, distance: int) -> Numbers:
        b = self.b
        others = [
            b.add(spv.GroupNonUniformShuffleXorOp(spv.Scope.Subgroup, value, b.i32(distance)))
            for value in values
        ]
        return self._combine(values, others)

    def _through_memory(self, rows: dict[int, Numbers], parts: int) -> dict[int, Numbers]:
        """Reduces `parts` partial results of each row through Workgroup memory."""
        b, layout, axis = self.b, self.layout, self.axis
        part: Index = 0
        size = 1
        for position, (count, step) in enumerate(layout.groups):
            if step[axis]:
                part = b.plus(part, b.times(b.group_index(layout, position), size))
                size *= count
        bits = [(bit, size << n) for n, bit in enumerate(self.written)]
        part = moved_bits(b, b.lane_id(b.target.subgroup_size), bits, part)
        shape = tile.tile_of(self.op.tiles[0]).shape
        shape = (*shape[:axis], *shape[axis + 1 :], parts)
        rooms = [b.room(value.type.element, shape) for value in self.tiles]
        for room in rooms:
            b.will_write(room)
        places = {n: b.coordinates(Spot(self.result, n)) for n in rows}

        def write() -> None:
            for number, values in rows.items():
                for room, value in zip(rooms, values, strict=True):
                    b.store(value, room, (*places[number], part))

        b.when(b.owner(self._owner_layout()), write)
        for room in rooms:
            b.will_read(room)
        results: dict[int, Numbers] = {}
        for number in rows:
            for other in range(parts):
                values = [b.load(room, (*places[number], other)) for room in rooms]
                known = results.get(number)
                results[number] = values if known is None else self._combine(known, values)
        for room in rooms:
            b.give_back(room)
        return results

    def _owner_layout(self) -> Layout:
        nothing = (0,) * len(self.layout.registers[0])
        lanes = enumerate(self.layout.lanes)
        held = tuple(nothing if n in self.exchanged else place for n, place in lanes)
        return replace(self.layout, lanes=held)


MoveOp: TypeAlias = tile.BroadcastOp | tile.ReshapeOp | tile.TransposeOp
"""An operation that copies elements to other positions."""


def layout_of(home: Home | None) -> Layout | None:
    """Returns the layout in which a tile is held; None if component positions are unknown."""
    return home and home.layout


class Homes:
    """
    Chooses a home (matrices or a layout that hold the elements) for each tile.

    The plan of a product gives its home. A reduction has the home of its operand without the
    reduced axis. An elementwise map has the first home among its operands. Other tiles have no
    home.
    """

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self._plans: dict[Operation, Product | None] = {}
        self._known: dict[SSAValue, Home | None] = {}

    def plan(self, op: tile.MultiplyAddOp) -> Product | None:
        """Returns the plan of a product; None for multiply-adds without matrices."""
        if op not in self._plans:
            self._plans[op] = plan_product(op, self.schedule)
        return self._plans[op]

    def find(self, value: SSAValue) -> Home | None:
        """Returns the matrices or the layout that hold a tile; None if neither is chosen."""
        if value not in self._known:
            self._known[value] = self._find(value, {})
        return self._known[value]

    def layout_of_reduction(
        self, op: tile.ReduceOp, seen: dict[SSAValue, Home | None] | None = None
    ) -> Layout:
        """
        Returns the layout in which a reduction reads its operands. `seen` has the homes found so
        far.
        """
        found = layout_of(self._find(op.tiles[0], {} if seen is None else seen))
        return found or self.schedule.spread(tile.tile_of(op.tiles[0]).shape)

    def _find(self, value: SSAValue, seen: dict[SSAValue, Home | None]) -> Home | None:
        if value not in seen:
            seen[value] = None
            seen[value] = self._derive(value, seen)
        return seen[value]

    def _derive(self, value: SSAValue, seen: dict[SSAValue, Home | None]) -> Home | None:
        owner = value.owner
        if isinstance(owner, Block):
            loop = owner.parent_op()
            if not isinstance(loop, scf.ForOp) or owner.args[0] is value:
                return None
            number = list(owner.args).index(value) - 1  # pyright: ignore[reportArgumentType]
            return self._find(_yield_operand(loop.body.block, number), seen) or self._find(
                loop.iter_args[number], seen
            )
        match owner:
            case tile.MultiplyAddOp():
                plan = self.plan(owner)
                return plan.c if plan else self.schedule.spread(tile.tile_of(value).shape)
            case tile.MapOp() | tile.ScanOp():
                homes = (self._find(operand, seen) for operand in owner.tiles)
                return next((home for home in homes if layout_of(home) is not None), None)
            case tile.ReduceOp():
                return self.layout_of_reduction(owner, seen).drop_axis(owner.axis.value.data)
            case tile.TransposeOp() | tile.ReshapeOp():
                found, axes = layout_of(self._find(owner.tile, seen)), source_axes(owner)
                return found.select_axes(axes) if found and axes else None
            case scf.ForOp():
                number = list(owner.results).index(value)  # pyright: ignore[reportArgumentType]
                return self._find(owner.body.block.args[number + 1], seen)
            case scf.IfOp():
                number = list(owner.results).index(value)  # pyright: ignore[reportArgumentType]
                return self._find(_yield_operand(owner.true_region.block, number), seen)
            case _:
                return None


def source_axes(op: MoveOp) -> Sequence[int | None] | None:
    """
    Returns the source axis of each result axis (None: new axis); None for a reshape that changes
    sizes above 1.
    """
    before, after = tile.tile_of(op.tile).shape, tile.tile_of(op.result).shape
    if isinstance(op, tile.TransposeOp):
        return range(len(after))[::-1]
    if isinstance(op, tile.BroadcastOp):
        return [axis if size == after[axis] else None for axis, size in enumerate(before)]
    wide = [axis for axis, size in enumerate(before) if size != 1]
    if [before[axis] for axis in wide] != [size for size in after if size != 1]:
        return None
    left = iter(wide)
    return [None if size == 1 else next(left) for size in after]


def _yield_operand(block: Block, number: int) -> SSAValue:
    last = block.last_op
    assert isinstance(last, scf.YieldOp)
    return last.operands[number]
