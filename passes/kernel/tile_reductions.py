"""
Reduces tiles: in an invocation's registers, then between lanes, then between subgroups.

Lanes exchange values by shuffles if the target has them. The remaining partial results go through
Workgroup memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv, tile
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.kernel.matrix_values import moved_bits
from xdsl_spirv.passes.kernel.tile_code import Spot, TileEmitter
from xdsl_spirv.passes.kernel.tile_layout import Layout
from xdsl_spirv.passes.kernel.tile_values import Held, TileValue

Numbers = Sequence[SSAValue]
"""One value for each tile of a reduction over several tiles."""


class Reduction:
    """Writes the code of one reduction."""

    def __init__(self, op: tile.ReduceOp, tiles: Sequence[TileValue], layout: Layout):
        self.op, self.tiles, self.layout = op, tiles, layout
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
        block = self.op.body.block
        values: dict[SSAValue, SSAValue] = dict(zip(block.args, (*a, *b), strict=True))
        for op in block.ops:
            operands = [values[operand] for operand in op.operands]
            if isinstance(op, tile.YieldOp):
                return operands
            values |= zip(op.results, self.b.copied(op, operands), strict=True)
        raise AssertionError("a reduction's body has no tile.yield")

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
        lanes = [
            nothing if n in self.exchanged else place for n, place in enumerate(self.layout.lanes)
        ]
        return Layout(tuple(lanes), self.layout.groups, self.layout.registers)
