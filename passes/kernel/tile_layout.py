"""
Describes which elements of a tile each invocation holds (a layout).

A layout has three levels: a grid of subgroups (mixed radix), the bits of a lane index, and
registers. Each level adds an offset to the element's position. An accumulator matrix has a layout
if the target defines its component positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import TypeAlias

from xdsl.ir import Attribute

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.kernel.matrix_values import matrix_type
from xdsl_spirv.targets import Fragment, Target
from xdsl_spirv.targets.linear import Place


def _add(*places: Place) -> Place:
    return tuple(map(sum, zip(*places, strict=True)))


@dataclass(frozen=True)
class Layout:
    """
    Distribution of a tile's elements over invocations.

    The position of a register's element is the sum of the offsets of the set bits of the lane
    index, of the subgroup's grid indices, and of the register. Invocations that differ only in
    bits or grid indices with offset 0 hold equal elements.
    """

    lanes: tuple[Place, ...]
    groups: tuple[tuple[int, Place], ...]
    """For each grid direction, fastest first: number of subgroups, and the offset of one step."""
    registers: tuple[Place, ...]

    def type_of(self, element: Attribute) -> Attribute:
        """Returns the type of the SSA values that hold a tile: scalars."""
        return element

    @property
    def count(self) -> int:
        """Number of SSA values that hold a tile."""
        return len(self.registers)

    @property
    def layout(self) -> Layout:
        """Distribution of the elements: this object."""
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
"""Description of the SSA values that hold a tile."""


def matrices(
    target: Target,
    use: str,
    tile: tuple[int, int],
    shape: tuple[int, int],
    grid: tuple[int, int],
    bits: int,
) -> Matrices:
    """Divides a tile into matrices for each subgroup."""
    rows = tile[0] // (1 if use == "B" else grid[0])
    columns = tile[1] // (1 if use == "A" else grid[1])
    counts = rows // shape[0], columns // shape[1]
    return Matrices(use, shape, counts, grid, bits, target.fragment(use, shape, bits))
