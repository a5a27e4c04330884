"""
An operand's fragments, dequantized by the invocations that hold them.

Each invocation reads the units of the rows of A, or the columns of B, that it holds, in the order
that `schedule/k_order` says, and puts their elements where the target's component map says that
they belong. Neither Workgroup memory nor another invocation has any part in it.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.analysis.unpacking import VECTOR
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import components_of
from xdsl_spirv.passes.kernel.matrix_values import moved_bits, put_together, zeros
from xdsl_spirv.passes.kernel.unit_code import UnitCode
from xdsl_spirv.passes.kernel.unpacked import UnitSource
from xdsl_spirv.passes.schedule.k_order import inner_axis
from xdsl_spirv.passes.schedule.tiles import UnpackedTile


class UnpackedFragments:
    """
    The code of a subgroup's fragments of one operand.

    If it reads ahead, the planes' elements for the next K tile wait in registers (`waiting`).
    """

    def __init__(
        self,
        builder: KernelEmitter,
        tile: UnpackedTile,
        batch: Index,
        first: Index,
        lane: SSAValue,
        part: tuple[int, int],
        slice: Index = 0,
    ):
        """
        `first` is the subgroup's first fragment along M or N; `part` says how many fragments it
        has of a tile along M or N, and how many elements of a tile along K. It has the `slice`-th
        such part of the K tile.
        """
        assert tile.fragment is not None
        assert tile.order is not None
        self.builder, self.tile, self.order, self.lane = builder, tile, tile.order, lane
        self.within_k = False
        """True if the tiles being loaded are known to lie inside K, so that K is not checked."""
        self.axis = inner_axis(tile.fragment)
        count, depth = part
        self.groups = depth // self.order.group
        first_unit = builder.times(slice, depth // tile.unpacking.size)
        share, split = self._of_lane(self.axis), self.order.split
        self.source = UnitSource(
            builder, tile.unpacking, batch, split, builder.remainder(share, split)
        )
        self.own = builder.plus(builder.divided(share, split), first_unit)
        outer = 1 - self.axis
        self.slots = [place[outer] for place in tile.fragment.component.places]
        self.lines = self._lines(first, count, outer)
        self.held = self.groups * sum(map(len, self.lines)) * self.source.loads
        """Number of values that wait in registers if tiles are read ahead."""
        self.waiting: list[SSAValue] = []
        self._units: list[list[dict[int, tuple[UnitCode, Condition]]]] = []

    def _of_lane(self, axis: int) -> Index:
        """Returns the lane's offset along an axis; along K in units."""
        b, fragment = self.builder, self.tile.fragment
        assert fragment is not None
        bits = fragment.lane.bits_along(axis)
        if axis == self.axis:
            bits = [(bit, 1 << rank) for rank, (bit, _) in enumerate(bits)]
        place: Index = 0
        for bit in bits:
            place = moved_bits(b, self.lane, [bit], place)
        return place

    def _lines(self, first: Index, count: int, axis: int) -> list[dict[int, Index]]:
        """Lists by fragment the rows or columns that the invocation holds, by place."""
        b, tile, fragment = self.builder, self.tile, self.tile.fragment
        assert fragment is not None
        size = (fragment.rows, fragment.columns)[axis]
        own = b.plus(b.times(first, size), self._of_lane(axis))
        lines: list[dict[int, Index]] = []
        for number in range(count):
            places: dict[int, Index] = {}
            for slot in self.slots:
                place = b.plus(own, number * size + slot)
                if tile.guarded[0]:
                    place = b.select(b.below(place, tile.extent[0]), place, 0)
                places[slot] = place
            lines.append(places)
        return lines

    def begin_ahead(self) -> None:
        """Reads the first K tile's values into `waiting`."""
        self.waiting = self.read(0)

    def enter(self, k: Index, following: Index | None = None) -> None:
        """Selects the K tile at element `k`, and the tile at `following` to read ahead."""
        values = self.waiting if self.tile.ahead else self.read(k)
        if following is not None and self.tile.ahead:
            self.waiting = self.read(following)
        rest = list(values)
        self._units = []
        for group in range(self.groups):
            unit, inside = self._unit(k, group)
            codes: list[dict[int, tuple[UnitCode, Condition]]] = []
            for places in self.lines:
                fragment: dict[int, tuple[UnitCode, Condition]] = {}
                for slot in places:
                    loaded = [rest.pop(0) for _ in range(self.source.loads)]
                    fragment[slot] = self.source.code(loaded, unit), inside
                codes.append(fragment)
            self._units.append(codes)

    def read(self, k: Index) -> list[SSAValue]:
        """Loads the invocation's part of the K tile at `k` from the planes."""
        values: list[SSAValue] = []
        for group in range(self.groups):
            unit, inside = self._unit(k, group)
            if inside is not True:
                unit = self.builder.select(inside, unit, 0)
            for places in self.lines:
                for place in places.values():
                    values += self.source.load(place, unit)
        return values

    def _unit(self, k: Index, group: int) -> tuple[Index, Condition]:
        """The number of the invocation's unit in a group of a K tile, and whether it exists."""
        b, unpacking = self.builder, self.tile.unpacking
        first = b.plus(b.divided(k, unpacking.size), self.own)
        unit = b.plus(first, group * (self.order.group // unpacking.size))
        if self.within_k or not self.tile.guarded[1]:
            return unit, True
        return unit, b.below(unit, unpacking.units)

    def fragments(self, count: int, k: int, type: spv.CooperativeMatrixType) -> list[SSAValue]:
        """The subgroup's fragments at `k` elements along K in the tile."""
        return [self.fragment(number, k, type) for number in range(count)]

    def fragment(self, number: int, k: int, type: spv.CooperativeMatrixType) -> SSAValue:
        """Builds the fragment with this number, at `k` elements along K in the tile."""
        group, within = divmod(k, self.order.group)
        depth = self.order.parts * self.order.count
        first = within // depth * self.order.count
        return self._fragment(self._units[group][number], first, type)

    def _fragment(
        self,
        units: dict[int, tuple[UnitCode, Condition]],
        first: int,
        type: spv.CooperativeMatrixType,
    ) -> SSAValue:
        """Builds a fragment from the units' elements from number `first` on."""
        b = self.builder
        none = zeros(b, type, "none")
        fours: dict[tuple[int, int], list[SSAValue]] = {}
        rest = {slot: iter(self.order.elements) for slot in units}

        def component(slot: int) -> SSAValue:
            at = first + next(rest[slot])
            key = slot, at // VECTOR
            if key not in fours:
                code, inside = units[slot]
                four = code.four(at // VECTOR)
                if inside is not True:
                    four = b.select(inside, four, b.zero(four.type))
                fours[key] = components_of(b, four)
            return fours[key][at % VECTOR]

        return put_together(b, map(component, self.slots), none)
