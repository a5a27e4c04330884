"""
Represents integers, pointers and masks of a kernel as sums, from which boxes of views are
recognised.

An integer is a sum of products of numbers (`Sum`); a tensor of integers is a sum, plus for each
axis a sum times the index along it (`Affine`). Anything else is a tile or a number of the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import SSAValue

Product: TypeAlias = tuple[int, ...]
"""The numbers that are multiplied, in order; empty for the constant."""


@dataclass(frozen=True)
class Sum:
    """A sum of products, each with a factor; numbers are identified by the order of creation."""

    terms: tuple[tuple[Product, int], ...] = ()

    @classmethod
    def collect(cls, terms: Mapping[Product, int]) -> Sum:
        """Makes a sum of products with factors; leaves out factors of 0."""
        return cls(tuple(sorted((p, factor) for p, factor in terms.items() if factor)))

    @property
    def constant(self) -> int | None:
        """Its value, if it is a constant."""
        if not self.terms:
            return 0
        (product, factor), *rest = self.terms
        return factor if not rest and not product else None

    @property
    def numbers(self) -> set[int]:
        """The numbers that occur in it."""
        return {number for product, _ in self.terms for number in product}

    def __add__(self, other: Sum) -> Sum:
        terms = dict(self.terms)
        for product, factor in other.terms:
            terms[product] = terms.get(product, 0) + factor
        return Sum.collect(terms)

    def __neg__(self) -> Sum:
        return Sum(tuple((product, -factor) for product, factor in self.terms))

    def __sub__(self, other: Sum) -> Sum:
        return self + -other

    def __mul__(self, other: Sum) -> Sum:
        terms: dict[Product, int] = {}
        for a, f in self.terms:
            for b, g in other.terms:
                product = tuple(sorted(a + b))
                terms[product] = terms.get(product, 0) + f * g
        return Sum.collect(terms)

    def divide(self, by: int) -> Sum | None:
        """Returns the quotient, if every factor is a multiple of the divisor; else None."""
        if any(factor % by for _, factor in self.terms):
            return None
        return Sum(tuple((product, factor // by) for product, factor in self.terms))


def literal(value: int) -> Sum:
    """Makes a constant."""
    return Sum.collect({(): value})


ZERO, ONE = literal(0), literal(1)


@dataclass(frozen=True)
class Affine:
    """Integers in a shape: `start`, plus a step for each index. A scalar has no axes."""

    shape: tuple[int, ...]
    start: Sum
    steps: tuple[Sum, ...]

    @classmethod
    def uniform(cls, start: Sum, shape: Sequence[int] = ()) -> Affine:
        """Makes integers that are all `start`."""
        return cls(tuple(shape), start, (ZERO,) * len(shape))

    @property
    def is_uniform(self) -> bool:
        """True if all elements are equal."""
        return not any(step.terms for step in self.steps)

    def __add__(self, other: Affine) -> Affine:
        steps = tuple(a + b for a, b in zip(self.steps, other.steps, strict=True))
        return Affine(self.shape, self.start + other.start, steps)

    def __neg__(self) -> Affine:
        return Affine(self.shape, -self.start, tuple(-step for step in self.steps))

    def scale(self, by: Sum) -> Affine:
        """Multiplies every element by a number."""
        return Affine(self.shape, self.start * by, tuple(step * by for step in self.steps))

    def move(self, shape: Sequence[int], axes: Iterable[int | None]) -> Affine:
        """Reshapes: each new axis takes the steps of an old one; None adds a uniform axis."""
        kept = [
            ZERO if axis is None or self.shape[axis] == 1 else self.steps[axis] for axis in axes
        ]
        return Affine(tuple(shape), self.start, tuple(kept))


@dataclass(frozen=True)
class Pointer:
    """
    Pointers into an argument's buffer: `offset` elements after its start, plus a tile `rest`
    that is not affine."""

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
    """True where all conditions hold: comparisons, and truth values that are uniform."""

    shape: tuple[int, ...]
    parts: tuple[Compare | SSAValue, ...]


@dataclass(frozen=True)
class Descriptor:
    """A view of an array; reads outside of it give `outside`."""

    view: SSAValue
    nan: bool = False


Form: TypeAlias = Affine | Pointer | Mask | Descriptor | SSAValue


@dataclass
class Bounds:
    """The indices of an axis that a mask allows: from `first` to before each of `ends`."""

    first: Sum
    ends: list[Sum]


def bounds_of(mask: Mask) -> tuple[list[Bounds], list[SSAValue], list[Compare]] | None:
    """
    Returns the bounds along each axis, the uniform conditions, and comparisons of uniform numbers.

    Returns None for a mask that is not a box: if it compares indices of two axes, or has steps
    other than 1.
    """
    axes = [Bounds(ZERO, []) for _ in mask.shape]
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
        found = [axis for axis, step in enumerate(less.steps) if step.terms]
        if not found:
            uniform.append(part)
            continue
        (axis, *others), step = found, less.steps[found[0]].constant
        if others or step not in (1, -1) or (step == -1 and axis in lowest):
            return None
        if step == 1:
            axes[axis].ends.append(-less.start)
        else:
            lowest[axis] = less.start + ONE
    for axis, first in lowest.items():
        axes[axis].first = first
    return axes, conditions, uniform


def _as_less(part: Compare) -> Affine | None:
    """Returns a sum that is negative exactly if the comparison holds, or None if there is none."""
    a, b = (part.a, part.b) if part.predicate[1] == "l" else (part.b, part.a)
    if part.predicate not in ("slt", "sle", "sgt", "sge"):
        return None
    less = a + -b
    if part.predicate.endswith("e"):
        less += Affine.uniform(literal(-1), less.shape)
    return less
