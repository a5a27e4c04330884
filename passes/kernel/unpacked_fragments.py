"""
Dequantizes an operand's fragments in the invocations that hold them.

Each invocation reads its rows of A, or columns of B, by units of elements, in the order of
`schedule/k_order`. The target's component positions determine which element each component holds.
Neither Workgroup memory nor exchanges are needed.
"""

from __future__ import annotations

from itertools import islice, product

from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic
from xdsl_spirv.passes.analysis.unpacking import VECTOR
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import components_of
from xdsl_spirv.passes.kernel.k_loop import DirectOperand
from xdsl_spirv.passes.kernel.matrix_values import moved_bits, put_together, zeros
from xdsl_spirv.passes.kernel.result_tile import Part
from xdsl_spirv.passes.kernel.unit_code import ElementCode
from xdsl_spirv.passes.kernel.unpacked import UnitSource
from xdsl_spirv.passes.schedule.k_order import inner_axis
from xdsl_spirv.passes.schedule.tiles import UnitTile


class UnitFragments(DirectOperand):
    """
    Computes a subgroup's fragments from packed planes. Planes that are read ahead stay packed.
    """

    def __init__(self, builder: KernelEmitter, tile: UnitTile, part: Part):
        assert tile.fragment is not None
        assert tile.order is not None
        super().__init__(builder, tile.ahead)
        self.tile = tile
        self.map, self.order, self.lane = tile.fragment, tile.order, part.lane
        is_one = not is_dynamic(tile.extent[0]) and tile.extent[0] <= tile.shape[0]
        first = part.first_fragment(builder, is_one)
        self.axis = inner_axis(tile.fragment)
        self.groups = part.depth // self.order.group
        first_unit = builder.times(part.slice, part.depth // tile.unpacking.size)
        share, split = self._of_lane(self.axis), self.order.split
        self.source = UnitSource(
            builder, tile.unpacking, part.batch, split, builder.remainder(share, split)
        )
        self.own = builder.plus(builder.divided(share, split), first_unit)
        outer = 1 - self.axis
        self.slots = [place[outer] for place in tile.fragment.component.places]
        self.lines = self._lines(first, part.count, outer)
        self.held = self.groups * len(self.lines) * self.source.loads
        self._units: dict[tuple[int, int, int], tuple[ElementCode, Condition]] = {}

    def _of_lane(self, axis: int) -> Index:
        b, bits = self.builder, self.map.lane.bits_along(axis)
        if axis == self.axis:
            bits = [(bit, 1 << rank) for rank, (bit, _) in enumerate(bits)]
        place: Index = 0
        for bit in bits:
            place = moved_bits(b, self.lane, [bit], place)
        return place

    def _lines(self, first: Index, count: int, axis: int) -> dict[tuple[int, int], Index]:
        """Returns the invocation's rows or columns, by fragment and offset in the fragment."""
        b, tile = self.builder, self.tile
        size = (self.map.rows, self.map.columns)[axis]
        own = b.plus(b.times(first, size), self._of_lane(axis))
        lines: dict[tuple[int, int], Index] = {}
        # In the only tile, some lines are known to lie inside of the operand, or outside.
        known = tile.extent[0] if first == 0 and not is_dynamic(tile.extent[0]) else None
        lanes = sum(place for _, place in self.map.lane.bits_along(axis))
        for number, slot in product(range(count), self.slots):
            least = number * size + slot
            if known is not None and least >= known:
                continue
            place = b.plus(own, least)
            if tile.guarded[0] and (known is None or least + lanes >= known):
                place = b.select(b.below(place, tile.extent[0]), place, 0)
            lines[number, slot] = place
        return lines

    def begin_ahead(self) -> None:
        self.waiting = self.read(0)

    def enter(self, k: Index, following: Index | None = None) -> None:
        values = self.waiting if self.tile.ahead else self.read(k)
        if following is not None and self.tile.ahead:
            self.waiting = self.read(following)
        rest = iter(values)
        for group in range(self.groups):
            unit, inside = self._unit(k, group)
            for line in self.lines:
                loaded = list(islice(rest, self.source.loads))
                self._units[group, *line] = self.source.code(loaded, unit), inside

    def read(self, k: Index) -> list[SSAValue]:
        """Loads the packed planes of the invocation's elements in the K tile at element `k`."""
        values: list[SSAValue] = []
        for group in range(self.groups):
            unit, inside = self._unit(k, group)
            if inside is not True:
                unit = self.builder.select(inside, unit, 0)
            for place in self.lines.values():
                values += self.source.load(place, unit)
        return values

    def _unit(self, k: Index, group: int) -> tuple[Index, Condition]:
        """Returns the index along K of the invocation's unit in a group, and if the unit exists."""
        b, unpacking = self.builder, self.tile.unpacking
        first = b.plus(b.divided(k, unpacking.size), self.own)
        unit = b.plus(first, group * (self.order.group // unpacking.size))
        if self.within_k or not self.tile.guarded[1]:
            return unit, True
        return unit, b.below(unit, unpacking.units)

    def fragments(self, count: int, k: int, type: spv.CooperativeMatrixType) -> list[SSAValue]:
        return [self.fragment(number, k, type) for number in range(count)]

    def fragment(self, number: int, k: int, type: spv.CooperativeMatrixType) -> SSAValue:
        """Builds fragment `number` along M or N, at element `k` of the current K tile."""
        group, within = divmod(k, self.order.group)
        depth = self.order.parts * self.order.count
        first = within // depth * self.order.count
        b = self.builder
        none = zeros(b, type, "none")
        fours: dict[tuple[int, int], list[SSAValue]] = {}
        rest = {slot: iter(self.order.elements) for slot in self.slots}

        def component(slot: int) -> SSAValue:
            if (number, slot) not in self.lines:
                return b.zero(type.element_type)
            at = first + next(rest[slot])
            key = slot, at // VECTOR
            if key not in fours:
                code, inside = self._units[group, number, slot]
                four = code.four(at // VECTOR)
                if inside is not True:
                    four = b.select(inside, four, b.zero(four.type))
                fours[key] = components_of(b, four)
            return fours[key][at % VECTOR]

        return put_together(b, map(component, self.slots), none)
