"""
Writes the code of a tile program: places of elements, the workgroup's numbers, shared memory.

Every pure operation stands once, as far out as its operands allow. A barrier stands where an
invocation reads what others wrote since the last one, or writes what others may still read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NoReturn

from xdsl.dialects import arith, gpu, memref
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule import FlatViewOp, bit_width
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.emit.kernel import INDEX
from xdsl_spirv.passes.kernel.matrix_values import moved_bits
from xdsl_spirv.passes.kernel.tile_layout import Layout, spread
from xdsl_spirv.targets import Target

PASS = "lower-tiles"


@dataclass(frozen=True)
class Schedule:
    """The target of a lowering: the device, its subgroups and the instruction of products."""

    target: Target
    grid: tuple[int, int]
    """Subgroups along rows and columns of products."""
    instruction: tuple[int, int, int] | str | None = None
    """The matrix instruction's shape, or `fma`; None takes the target's first that fits."""

    @property
    def subgroups(self) -> int:
        """The subgroups of a workgroup."""
        return self.grid[0] * self.grid[1]

    def spread(self, shape: Sequence[int]) -> Layout:
        """Deals a tile's elements to all invocations: the layout of tiles without a home."""
        return spread(shape, self.target, self.subgroups)


@dataclass(frozen=True)
class Spot:
    """One register of a layout: the place for which a value is computed."""

    layout: Layout
    register: int


@dataclass
class Shared:
    """The Workgroup memory that was written or read since the last barrier."""

    written: set[SSAValue] = field(default_factory=set[SSAValue])
    read: set[SSAValue] = field(default_factory=set[SSAValue])
    unknown: bool = False
    """Whether other iterations or branches may have read any of it."""


class TileEmitter(HoistingEmitter):
    """Writes the kernel; operations have the source location of the tile operation at work."""

    def __init__(self, block: Block, schedule: Schedule):
        super().__init__(InsertPoint.at_end(block))
        self.schedule = schedule
        self.target = schedule.target
        self.shared = Shared()
        self.bytes = 0
        self.current: Operation | None = None
        self._coordinates: dict[Spot, tuple[Index, ...]] = {}
        self._free: dict[object, list[SSAValue]] = {}
        self.kept: list[list[SSAValue]] = [[]]
        """Memory that is in use to the end of each loop or branch around this place."""

    def refuse(self, cause: str) -> NoReturn:
        """Refuses the tile operation at work."""
        assert self.current is not None
        refuse(PASS, self.current, cause)

    def insert(self, op: Operation, depth: int = -1) -> None:
        if self.current is not None and isinstance(op.location, UnknownLoc):
            op.location = self.current.location
        super().insert(op, depth)

    # Places

    def corner(self, layout: Layout, axis: int) -> Index:
        """The sum of the places of the invocation's lane and subgroup along an axis."""
        return self.once_index(
            (layout.lanes, layout.groups, axis), lambda: self._corner(layout, axis)
        )

    def _corner(self, layout: Layout, axis: int) -> Index:
        size = self.target.subgroup_size
        bits = [(n, place[axis]) for n, place in enumerate(layout.lanes) if place[axis]]
        total: Index = moved_bits(self, self.lane_id(size), bits) if bits else 0
        stride, subgroups = 1, self.schedule.subgroups
        for count, step in layout.groups:
            if step[axis]:
                number = self.divided(self.subgroup_id(subgroups), stride)
                total = self.plus(total, self.times(self.remainder(number, count), step[axis]))
            stride *= count
        return total

    def once_index(self, key: object, make: Callable[[], Index]) -> Index:
        """Emits an index that depends only on the invocation, once for all readers."""
        known = self.scopes[0].known
        if key not in known:
            with self.at(0):
                known[key] = make()
        return known[key]

    def coordinates(self, spot: Spot) -> tuple[Index, ...]:
        """The element's indices in the tile."""
        if spot not in self._coordinates:
            place = spot.layout.registers[spot.register]
            self._coordinates[spot] = tuple(
                self.plus(self.corner(spot.layout, axis), offset)
                for axis, offset in enumerate(place)
            )
        return self._coordinates[spot]

    def owner(self, layout: Layout) -> Condition:
        """True in the first of the invocations that hold the same elements."""
        same: Condition = True
        bits = [(n, 1 << n) for n, place in enumerate(layout.lanes) if not any(place)]
        if bits:
            same = self.below(moved_bits(self, self.lane_id(self.target.subgroup_size), bits), 1)
        stride, subgroups = 1, self.schedule.subgroups
        for count, step in layout.groups:
            if not any(step):
                number = self.divided(self.subgroup_id(subgroups), stride)
                same = self.both(same, self.below(self.remainder(number, count), 1))
            stride *= count
        return same

    def cast(self, value: Index, type: Attribute) -> SSAValue:
        """Converts between an index and an integer type."""
        held = self.index(value)
        if held.type == type:
            return held
        if (
            isinstance(type, IntegerType)
            and not isinstance(value, SSAValue)
            and isinstance(value, int)
        ):
            return self.number(value, type)
        return self.copied(arith.IndexCastOp(held, type), [held])[0]

    # Memory that the workgroup shares

    def room(self, element: Attribute, shape: tuple[int, ...]) -> SSAValue:
        """Allocates Workgroup memory, freed memory first; refuses more than the device has."""
        if free := self._free.get((element, shape)):
            return free.pop()
        self.bytes += prod(shape) * max(8, bit_width(element)) // 8
        if self.bytes > self.target.workgroup_memory_bytes:
            self.refuse(
                f"the kernel takes {self.bytes} bytes of Workgroup memory and {self.target.name} "
                f"has {self.target.workgroup_memory_bytes}: make tiles smaller"
            )
        return self.allocate(element, shape, "tile")

    def give_back(self, memory: SSAValue) -> None:
        """Frees memory for reuse; the next writer waits for its readers."""
        type = memory.type
        assert isinstance(type, MemRefType)
        self._free.setdefault((type.element_type, tuple(type.get_shape())), []).append(memory)

    def will_write(self, memory: SSAValue) -> None:
        """Emits a barrier if an invocation may still read the memory."""
        if self.shared.unknown or memory in self.shared.read | self.shared.written:
            self.wait()
        self.shared.written.add(memory)

    def will_read(self, memory: SSAValue) -> None:
        """Emits a barrier if the memory was written since the last one."""
        if memory in self.shared.written:
            self.wait()
        self.shared.read.add(memory)

    def wait(self) -> None:
        """Emits a workgroup barrier."""
        self.barrier()
        self.shared = Shared()

    def flat(self, buffer: SSAValue, element: Attribute) -> SSAValue:
        """Views a buffer as one row of elements."""
        type = buffer.type
        assert isinstance(type, MemRefType)
        if type.get_num_dims() == 1 and type.element_type == element:
            return buffer
        return self.once(("flat", buffer), lambda: FlatViewOp(buffer, element))

    def dimension(self, buffer: SSAValue, axis: int) -> SSAValue:
        """Returns the size of a buffer's axis; a dynamic size comes from the launch."""
        number = self.number(axis)
        return self.once((buffer, axis), lambda: memref.DimOp(buffer, number))

    def workgroup(self, axis: int, count: int | None) -> SSAValue:
        """The workgroup's number along an axis of the grid."""
        dimension = list(gpu.DimensionEnum)[axis]
        return self.block_id(dimension, f"workgroup_{dimension.value}", count)

    def workgroups(self, axis: int) -> SSAValue:
        """The number of workgroups along an axis of the grid."""
        dimension = gpu.DimensionAttr(list(gpu.DimensionEnum)[axis])
        make = lambda: gpu.GridDimOp(dimension)  # noqa: E731
        return self.identifier((gpu.GridDimOp, dimension), make, "workgroups", None)


def is_index(type: Attribute) -> bool:
    """True if values of this type are computed as indices: `index` and 32-bit integers."""
    return isinstance(type, IndexType) or (isinstance(type, IntegerType) and type.width.data == 32)


__all__ = ["INDEX", "PASS", "Schedule", "Shared", "Spot", "TileEmitter", "is_index"]
