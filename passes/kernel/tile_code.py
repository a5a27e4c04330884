"""
Emits the code of a tile program: element coordinates, workgroup indices and Workgroup memory.

Every pure operation is emitted once, in the outermost scope that has its operands. A barrier is
emitted before an invocation reads values that others wrote since the last barrier, and before it
overwrites values that others may still read.

A layout describes which elements of a tile each invocation holds. It has three levels: a grid of
subgroups (mixed radix), the bits of a lane index, and registers. Each level adds an offset to the
element's position. An accumulator matrix has a layout if the target defines its component
positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import NoReturn, TypeAlias, TypeVar

from xdsl.dialects import arith, gpu, memref
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.matrix_values import matrix_type, moved_bits
from xdsl_spirv.targets import Fragment, Target
from xdsl_spirv.targets.linear import Place

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
        """
        For each enclosing loop or branch, the Workgroup memory that stays in use until its end.
        """

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
        """Emits indices that depend only on the invocation. They are emitted once for each key."""
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
    """
    True for the types whose values the kernel computes as indices: `index` and 32-bit integers.
    """
    return isinstance(type, IndexType) or (isinstance(type, IntegerType) and type.width.data == 32)


def _add(*places: Place) -> Place:
    return tuple(map(sum, zip(*places, strict=True)))


@dataclass(frozen=True)
class Layout:
    """
    Distribution of a tile's elements over invocations.

    Set bits of the lane index, the subgroup's grid indices and the register all have offsets. The
    position of a register's element is the sum of these offsets. Invocations that differ only in
    bits or grid indices with offset 0 hold equal elements.
    """

    lanes: tuple[Place, ...]
    groups: tuple[tuple[int, Place], ...]
    """For each grid direction, fastest first: number of subgroups, and the offset of one step."""
    registers: tuple[Place, ...]

    @property
    def count(self) -> int:
        """Number of SSA values that hold a tile."""
        return len(self.registers)

    @property
    def layout(self) -> Layout:
        """This layout. For `Matrices`, the layout of the components."""
        return self

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.lanes, self.groups, self.registers))

    @cached_property
    def numbers(self) -> dict[Place, int]:
        """Maps each register offset to the register's index."""
        return {place: number for number, place in enumerate(self.registers)}

    def drop_axis(self, axis: int) -> Layout:
        """Returns the layout without one axis; registers whose offsets become equal are merged."""
        return self._map(lambda place: (*place[:axis], *place[axis + 1 :]))

    def select_axes(self, axes: Sequence[int | None]) -> Layout:
        """
        Returns the layout whose axis n is axis `axes[n]` of this layout; None: an axis of size 1.
        """
        return self._map(lambda place: tuple(0 if a is None else place[a] for a in axes))

    def _map(self, change: Callable[[Place], Place]) -> Layout:
        return Layout(
            tuple(map(change, self.lanes)),
            tuple((count, change(step)) for count, step in self.groups),
            tuple(dict.fromkeys(map(change, self.registers))),
        )


def spread(shape: Sequence[int], target: Target, subgroups: int) -> Layout:
    """
    Distributes a tile's elements over all invocations; neighbouring lanes get neighbouring
    elements.

    Odd factors of a size remain in the registers of one invocation.
    """
    left, lanes = list(shape), list[Place]()
    taken = [1] * len(shape)

    def deal() -> Place:
        for axis in reversed(range(len(shape))):
            if left[axis] % 2 == 0:
                place = tuple(taken[axis] if a == axis else 0 for a in range(len(shape)))
                left[axis] //= 2
                taken[axis] *= 2
                return place
        return (0,) * len(shape)

    lanes = [deal() for _ in range(target.subgroup_size.bit_length() - 1)]
    groups, count = list[tuple[int, Place]](), subgroups
    while count % 2 == 0:
        groups.append((2, deal()))
        count //= 2
    if count > 1:
        groups.append((count, (0,) * len(shape)))
    steps = [range(0, n * t, t) for n, t in zip(left, taken, strict=True)]
    return Layout(tuple(lanes), tuple(groups), tuple(product(*steps)))


@dataclass(frozen=True)
class Matrices:
    """
    A tile as cooperative matrices of one use: each subgroup of a `grid` holds `counts` matrices of
    size `shape`.

    Subgroups in a grid row hold equal A matrices. Subgroups in a grid column hold equal B matrices.
    """

    use: str
    shape: tuple[int, int]
    counts: tuple[int, int]
    grid: tuple[int, int]
    bits: int
    fragment: Fragment | None

    def type_of(self, element: Attribute) -> spv.CooperativeMatrixType:
        """Returns the type of a single matrix."""
        return matrix_type(self.use, *self.shape, element)

    @property
    def count(self) -> int:
        """Number of SSA values that hold a tile: matrices of a subgroup."""
        return prod(self.counts)

    @property
    def numbers(self) -> list[tuple[int, int]]:
        """The (row, column) indices of a subgroup's matrices."""
        rows, columns = self.counts
        return list(product(range(rows), range(columns)))

    @property
    def steps(self) -> tuple[int, int]:
        """Offset in rows and columns from one subgroup of the grid to the next."""
        rows, columns = (n * size for n, size in zip(self.counts, self.shape, strict=True))
        return (0 if self.use == "B" else rows), (0 if self.use == "A" else columns)

    @cached_property
    def layout(self) -> Layout | None:
        """Layout of the components; None if the target does not define their positions."""
        if self.fragment is None:
            return None
        rows, columns = self.steps
        registers = [
            _add((i * self.shape[0], j * self.shape[1]), place)
            for i, j in self.numbers
            for place in self.fragment.component.places
        ]
        groups = [(self.grid[1], (0, columns)), (self.grid[0], (rows, 0))]
        return Layout(
            self.fragment.lane.bits,
            tuple((count, step) for count, step in groups if count > 1),
            tuple(registers),
        )


Home: TypeAlias = Layout | Matrices
"""The form in which SSA values hold a tile: a layout, or matrices."""


def matrices(
    target: Target,
    use: str,
    tile: tuple[int, int],
    shape: tuple[int, int],
    grid: tuple[int, int],
    bits: int,
) -> Matrices:
    """
    Divides a tile into matrices of size `shape` for each subgroup of a `grid`. `use` is A, B or
    Acc.
    """
    rows = tile[0] // (1 if use == "B" else grid[0])
    columns = tile[1] // (1 if use == "A" else grid[1])
    counts = rows // shape[0], columns // shape[1]
    return Matrices(use, shape, counts, grid, bits, target.fragment(use, shape, bits))
