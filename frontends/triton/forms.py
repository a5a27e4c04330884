"""
Represents integers, pointers and masks of a kernel as sums, to recognise boxes of views.

An integer is a sum of products of numbers (`Sum`). A tensor of integers is a sum plus, for each
axis, a sum times the index along the axis (`Affine`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule.symbolic_sizes import Atom, Size, is_dynamic, symbol

Sum: TypeAlias = Size
"""
A sum of products with integer factors. The products consist of values of type `index`, each of
which is represented as the size of a dimension (`Extent`).
"""


def terms_of(total: Sum) -> Sequence[tuple[tuple[Atom, ...], int]]:
    """Returns pairs of a product and its factor; the product of the constant term is empty."""
    if is_dynamic(total):
        return total.terms
    return [((), total)] if total else []


def numbers_of(total: Sum) -> set[SSAValue]:
    """Returns the numbers in a sum."""
    return {extent.value for extent in total.extents} if is_dynamic(total) else set()


@dataclass(frozen=True)
class Affine:
    """A tensor of integers: `start` plus a step per index of each axis. A scalar has no axes."""

    shape: tuple[int, ...]
    start: Sum
    steps: tuple[Sum, ...]

    @classmethod
    def uniform(cls, start: Sum, shape: Sequence[int] = ()) -> Affine:
        """Makes a tensor of integers that are all `start`."""
        return cls(tuple(shape), start, (0,) * len(shape))

    @property
    def is_uniform(self) -> bool:
        """True if all elements are equal."""
        return all(step == 0 for step in self.steps)

    def __add__(self, other: Affine) -> Affine:
        steps = tuple(a + b for a, b in zip(self.steps, other.steps, strict=True))
        return Affine(self.shape, self.start + other.start, steps)

    def __neg__(self) -> Affine:
        return Affine(self.shape, -self.start, tuple(-step for step in self.steps))

    def scale(self, by: Sum) -> Affine:
        """Multiplies every element by a sum."""
        return Affine(self.shape, self.start * by, tuple(step * by for step in self.steps))

    def move(self, shape: Sequence[int], axes: Iterable[int | None]) -> Affine:
        """
        Returns the integers in a new shape. Each new axis has the step of the old axis in `axes`,
        or 0 for None.
        """
        kept = [0 if axis is None or self.shape[axis] == 1 else self.steps[axis] for axis in axes]
        return Affine(tuple(shape), self.start, tuple(kept))


def to_32_bits(total: Sum) -> Sum:
    """Returns the sum with each constant wrapped around to a signed 32-bit integer."""
    parts = [
        prod(map(symbol, atoms), start=(factor + 2**31) % 2**32 - 2**31)
        for atoms, factor in terms_of(total)
    ]
    return sum(parts, 0)


def is_wide(*forms: Affine) -> bool:
    """True if a constant in one of the forms needs more than 32 bits."""
    return any(to_32_bits(total) != total for form in forms for total in (form.start, *form.steps))


@dataclass(frozen=True)
class Pointer:
    """Pointers into an argument's buffer: the element index is `offset` plus the tile `rest`."""

    argument: int
    offset: Affine
    rest: SSAValue | None = None


@dataclass(frozen=True)
class Compare:
    """A comparison of integers."""

    predicate: str
    a: Affine
    b: Affine


@dataclass(frozen=True)
class Mask:
    """A conjunction of comparisons and uniform booleans."""

    shape: tuple[int, ...]
    parts: tuple[Compare | SSAValue, ...]


@dataclass(frozen=True)
class Descriptor:
    """A view of an array. Reads out of bounds return NaN if `nan` is set, else 0."""

    view: SSAValue
    nan: bool = False


Form: TypeAlias = Affine | Pointer | Mask | Descriptor | SSAValue


@dataclass
class Bounds:
    """The allowed indices of an axis: at least `first`, and less than each of `ends`."""

    first: Sum
    ends: list[Sum]


def bounds_of(mask: Mask) -> tuple[list[Bounds], list[SSAValue], list[Compare]] | None:
    """
    Returns the bounds of each axis, the uniform booleans, and comparisons of uniform numbers.

    Returns None if the mask is not a box, for example if it compares indices of two axes.
    """
    axes = [Bounds(0, []) for _ in mask.shape]
    lowest: dict[int, Sum] = {}
    conditions: list[SSAValue] = []
    uniform: list[Compare] = []
    for part in mask.parts:
        if isinstance(part, SSAValue):
            conditions.append(part)
            continue
        less = _as_less(part)
        if less is None:
            return None
        found = [axis for axis, step in enumerate(less.steps) if step != 0]
        if not found:
            uniform.append(part)
            continue
        (axis, *others), step = found, less.steps[found[0]]
        if others or step not in (1, -1) or (step == -1 and axis in lowest):
            return None
        if step == 1:
            axes[axis].ends.append(-less.start)
        else:
            lowest[axis] = less.start + 1
    for axis, first in lowest.items():
        axes[axis].first = first
    return axes, conditions, uniform


def _as_less(part: Compare) -> Affine | None:
    """Returns a sum that is negative if and only if the comparison holds, or None."""
    a, b = (part.a, part.b) if part.predicate[1] == "l" else (part.b, part.a)
    if part.predicate not in ("slt", "sle", "sgt", "sge"):
        return None
    less = a + -b
    if part.predicate.endswith("e"):
        less += Affine.uniform(-1, less.shape)
    return less
