"""
Emits the code of a tile program: element coordinates, workgroup indices and Workgroup memory.

Every pure operation is emitted once, in the outermost scope that has its operands. A barrier is
emitted where an invocation reads values that others wrote since the last barrier, or overwrites
values that others may still read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NoReturn, TypeVar

from xdsl.dialects import arith, gpu, memref
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule import FlatViewOp, bit_width
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.matrix_values import moved_bits
from xdsl_spirv.passes.kernel.tile_layout import Layout, spread
from xdsl_spirv.targets import Target

PASS = "lower-tiles"

T = TypeVar("T")


@dataclass(frozen=True)
class Schedule:
    """The choices of a lowering: target, grid of subgroups and instruction of products."""

    target: Target
    grid: tuple[int, int]
    """Number of subgroups along the rows and columns of products."""
    instruction: tuple[int, int, int] | str | None = None
    """Shape of the cooperative matrices, or `fma`; None: the target's first fitting shape."""

    @property
    def subgroups(self) -> int:
        """Number of subgroups in a workgroup."""
        return self.grid[0] * self.grid[1]

    def spread(self, shape: Sequence[int]) -> Layout:
        """Returns the default layout, which distributes elements over all invocations."""
        return spread(shape, self.target, self.subgroups)


@dataclass(frozen=True)
class Spot:
    """A register of a layout. It stands for the tile's element that the register holds."""

    layout: Layout
    register: int


@dataclass
class Shared:
    """The Workgroup memory that was written or read since the last barrier."""

    written: set[SSAValue] = field(default_factory=set[SSAValue])
    read: set[SSAValue] = field(default_factory=set[SSAValue])
    unknown: bool = False
    """True if other iterations or branches may have read any Workgroup memory."""


class TileEmitter(HoistingEmitter):
    """Emits a kernel's operations, with the source location of the current tile operation."""

    def __init__(self, block: Block, schedule: Schedule):
        super().__init__(InsertPoint.at_end(block))
        self.schedule = schedule
        self.target = schedule.target
        self.shared = Shared()
        self.bytes = 0
        self.current: Operation | None = None
        self._free: dict[object, list[SSAValue]] = {}
        self.kept: list[list[SSAValue]] = [[]]
        """Workgroup memory that stays in use until the end of each enclosing loop or branch."""

    def refuse(self, cause: str) -> NoReturn:
        """Raises an error at the current tile operation."""
        assert self.current is not None
        refuse(PASS, self.current, cause)

    def insert(self, op: Operation, depth: int = -1) -> None:
        if self.current is not None and isinstance(op.location, UnknownLoc):
            op.location = self.current.location
        super().insert(op, depth)

    # Places

    def corner(self, layout: Layout, axis: int) -> Index:
        """Returns the offset that the invocation's lane and subgroup add along an axis."""
        return self.once_index(
            (layout.lanes, layout.groups, axis), lambda: self._corner(layout, axis)
        )

    def _corner(self, layout: Layout, axis: int) -> Index:
        size = self.target.subgroup_size
        bits = [(n, place[axis]) for n, place in enumerate(layout.lanes) if place[axis]]
        total: Index = moved_bits(self, self.lane_id(size), bits) if bits else 0
        for position, (_, step) in enumerate(layout.groups):
            if step[axis]:
                index = self.group_index(layout, position)
                total = self.plus(total, self.times(index, step[axis]))
        return total

    def group_index(self, layout: Layout, position: int) -> Index:
        """Returns the subgroup's index along a grid direction of a layout."""
        count, stride = layout.groups[position][0], prod(n for n, _ in layout.groups[:position])
        return self.remainder(
            self.divided(self.subgroup_id(self.schedule.subgroups), stride), count
        )

    def once_index(self, key: object, make: Callable[[], T]) -> T:
        """Emits indices that depend only on the invocation, once for each key."""
        known = self.scopes[0].known
        if key not in known:
            with self.at(0):
                known[key] = make()
        return known[key]

    def coordinates(self, spot: Spot) -> tuple[Index, ...]:
        """Returns the indices in the tile of the element that a register of a layout holds."""
        place = enumerate(spot.layout.registers[spot.register])
        return self.once_index(
            spot, lambda: tuple(self.plus(self.corner(spot.layout, axis), at) for axis, at in place)
        )

    def owner(self, layout: Layout) -> Condition:
        """True in the first of the invocations that hold equal elements."""
        same: Condition = True
        bits = [(n, 1 << n) for n, place in enumerate(layout.lanes) if not any(place)]
        if bits:
            same = self.below(moved_bits(self, self.lane_id(self.target.subgroup_size), bits), 1)
        for position, (_, step) in enumerate(layout.groups):
            if not any(step):
                same = self.both(same, self.below(self.group_index(layout, position), 1))
        return same

    def cast(self, value: Index, type: Attribute) -> SSAValue:
        """Converts an index to an integer type, or an integer to an index."""
        held = self.index(value)
        if held.type == type:
            return held
        if isinstance(type, IntegerType) and isinstance(value, int):
            return self.number(value, type)
        return self.copied(arith.IndexCastOp(held, type), [held])[0]

    # Memory that the workgroup shares

    def room(self, element: Attribute, shape: tuple[int, ...]) -> SSAValue:
        """Allocates Workgroup memory or reuses freed memory; refuses more than the target has."""
        if free := self._free.get((element, shape)):
            return free.pop()
        self.bytes += prod(shape) * max(8, bit_width(element)) // 8
        if self.bytes > self.target.workgroup_memory_bytes:
            self.refuse(
                f"the kernel needs {self.bytes} bytes of Workgroup memory, but {self.target.name} "
                f"has only {self.target.workgroup_memory_bytes}: make tiles smaller"
            )
        return self.allocate(element, shape, "tile")

    def give_back(self, memory: SSAValue) -> None:
        """Frees Workgroup memory for reuse. The next `will_write` emits the barrier."""
        type = memory.type
        assert isinstance(type, MemRefType)
        self._free.setdefault((type.element_type, tuple(type.get_shape())), []).append(memory)

    def will_write(self, memory: SSAValue) -> None:
        """Emits a barrier if an invocation may still read the memory."""
        if self.shared.unknown or memory in self.shared.read | self.shared.written:
            self.wait()
        self.shared.written.add(memory)

    def will_read(self, memory: SSAValue) -> None:
        """Emits a barrier if the memory was written since the last barrier."""
        if memory in self.shared.written:
            self.wait()
        self.shared.read.add(memory)

    def wait(self) -> None:
        """Emits a workgroup barrier."""
        self.barrier()
        self.shared = Shared()

    def flat(self, buffer: SSAValue, element: Attribute) -> SSAValue:
        """Returns a 1-D view of a buffer."""
        type = buffer.type
        assert isinstance(type, MemRefType)
        if type.get_num_dims() == 1 and type.element_type == element:
            return buffer
        return self.once(("flat", buffer), lambda: FlatViewOp(buffer, element))

    def dimension(self, buffer: SSAValue, axis: int) -> SSAValue:
        """Returns the size of a buffer's axis. The launch passes dynamic sizes."""
        number = self.number(axis)
        return self.once((buffer, axis), lambda: memref.DimOp(buffer, number))

    def workgroup(self, axis: int, count: int | None) -> SSAValue:
        """Returns the workgroup's index along an axis of the grid."""
        dimension = list(gpu.DimensionEnum)[axis]
        return self.block_id(dimension, f"workgroup_{dimension.value}", count)

    def workgroups(self, axis: int) -> SSAValue:
        """Returns the number of workgroups along an axis of the grid."""
        dimension = gpu.DimensionAttr(list(gpu.DimensionEnum)[axis])
        make = lambda: gpu.GridDimOp(dimension)  # noqa: E731
        return self.identifier((gpu.GridDimOp, dimension), make, "workgroups", None)


def is_index(type: Attribute) -> bool:
    """True for types whose values are computed as indices: `index` and 32-bit integers."""
    return isinstance(type, IndexType) or (isinstance(type, IntegerType) and type.width.data == 32)
