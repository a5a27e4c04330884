"""
The elements of a tile that each invocation holds.

Three levels: a grid of subgroups in mixed radix, the bits of an invocation's number in its
subgroup, and registers, each with the place that it adds. A matrix of accumulators has a layout
where the target says how its components lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

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
    The places of an invocation's elements: the sum of the places of its lane's bits, its subgroup
    and the register. A bit or a grid of subgroups that adds nothing says that others hold the same.
    """

    lanes: tuple[Place, ...]
    groups: tuple[tuple[int, Place], ...]
    """The number of subgroups along each direction and the place of a step; the fastest first."""
    registers: tuple[Place, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.lanes, self.groups, self.registers))

    @cached_property
    def numbers(self) -> dict[Place, int]:
        """Maps each place to the register that holds it."""
        return {place: number for number, place in enumerate(self.registers)}

    def drop_axis(self, axis: int) -> Layout:
        """Returns the layout without one axis: one element for each row along it."""
        return self._map(lambda place: (*place[:axis], *place[axis + 1 :]))

    def select_axes(self, axes: Sequence[int | None]) -> Layout:
        """Returns the layout whose axis n is `axes[n]` of this one; None is an axis of size 1."""
        return self._map(lambda place: tuple(0 if a is None else place[a] for a in axes))

    def _map(self, change: Callable[[Place], Place]) -> Layout:
        return Layout(
            tuple(map(change, self.lanes)),
            tuple((count, change(step)) for count, step in self.groups),
            tuple(dict.fromkeys(map(change, self.registers))),
        )


def spread(shape: Sequence[int], target: Target, subgroups: int) -> Layout:
    """
    Deals elements to all invocations of the workgroup, neighbours to neighbours.

    An odd factor of a size stays in one invocation.
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
    A tile as cooperative matrices of one use: `counts` of `shape` in each subgroup of a `grid`.

    An operand's matrices along K belong to all subgroups of its row or column.
    """

    use: str
    shape: tuple[int, int]
    counts: tuple[int, int]
    grid: tuple[int, int]
    bits: int
    fragment: Fragment | None

    def type_of(self, element: Attribute) -> spv.CooperativeMatrixType:
        """Returns the type of one of the matrices."""
        return matrix_type(self.use, *self.shape, element)

    @property
    def steps(self) -> tuple[int, int]:
        """Returns the rows and columns from one subgroup to the next."""
        rows, columns = (n * size for n, size in zip(self.counts, self.shape, strict=True))
        return (0 if self.use == "B" else rows), (0 if self.use == "A" else columns)

    @cached_property
    def layout(self) -> Layout | None:
        """Returns the places of the components; None if the target does not define them."""
        if self.fragment is None:
            return None
        rows, columns = self.steps
        registers = [
            _add((i * self.shape[0], j * self.shape[1]), place)
            for i, j in product(*map(range, self.counts))
            for place in self.fragment.component.places
        ]
        groups = [(self.grid[1], (0, columns)), (self.grid[0], (rows, 0))]
        return Layout(
            self.fragment.lane.bits,
            tuple((count, step) for count, step in groups if count > 1),
            tuple(registers),
        )


def matrices(
    target: Target,
    use: str,
    tile: tuple[int, int],
    shape: tuple[int, int],
    grid: tuple[int, int],
    bits: int,
) -> Matrices:
    """Divides a tile into matrices, subgroup by subgroup."""
    rows = tile[0] // (1 if use == "B" else grid[0])
    columns = tile[1] // (1 if use == "A" else grid[1])
    counts = rows // shape[0], columns // shape[1]
    return Matrices(use, shape, counts, grid, bits, target.fragment(use, shape, bits))
