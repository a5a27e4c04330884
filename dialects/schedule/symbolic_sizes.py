"""
Sizes that are known only when a program runs, as expressions of its buffers' dimensions.

A `Size` is an `int` where it is known, and else a `SymbolicSize`: a polynomial over `Extent`s, the
dynamic dimensions of tensors and buffers, and over quotients and minima of such polynomials. Sums,
differences and products of sizes are sizes; `//` by a positive number is exact; by another symbolic
size it divides where that leaves no rest whatever the sizes are. Two sizes are equal if their
expressions are: such sizes are equal whatever they are, and others may be by chance.

Nothing else is defined. A symbolic size has no order, no rest, no truth and no value as a number,
so none can be mistaken for another. Code that chooses asks for the `typical` size; code that must
be right asks what holds for every size: `surely_below`, `is_multiple`, `common_divisor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from math import gcd
from typing import Any, TypeAlias, overload
from weakref import WeakKeyDictionary

from typing_extensions import TypeIs
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

TYPICAL = 512
"""The size that choices assume for a dynamic size."""

TYPICAL_SIZE = "schedule.typical_size"
"""The attribute of a module whose dynamic sizes are typically of another number."""


class UnknownSizeError(ArithmeticError):
    """Raised if the number of a symbolic size is needed."""


@dataclass(frozen=True)
class Extent:
    """A dynamic dimension of a tensor or buffer; of a number of type `index`, the number itself."""

    value: SSAValue
    dimension: int
    name: str = field(default="", compare=False)
    """The model's name of the size, for messages."""

    @property
    def typical(self) -> int:
        module = self.value.owner.get_toplevel_object()
        number = module.attributes.get(TYPICAL_SIZE) if isinstance(module, Operation) else None
        return number.value.data if isinstance(number, IntegerAttr) else TYPICAL

    @property
    def is_natural(self) -> bool:
        return True

    @property
    def extents(self) -> tuple[Extent, ...]:
        return (self,)

    def replaced(self, known: Mapping[Extent, Size]) -> Size:
        return known[self] if self in known else symbol(self)

    def written(self, name: Callable[[Extent], object]) -> str:
        return str(name(self))


@dataclass(frozen=True)
class Quotient:
    """An expression divided by a positive number, rounded down."""

    dividend: SymbolicSize
    divisor: int

    @property
    def typical(self) -> int:
        return self.dividend.typical // self.divisor

    @property
    def is_natural(self) -> bool:
        return _is_natural(self.dividend)

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.dividend.extents

    def replaced(self, known: Mapping[Extent, Size]) -> Size:
        return self.dividend.replaced(known) // self.divisor

    def written(self, name: Callable[[Extent], object]) -> str:
        return f"(({self.dividend.written(name)}) / {self.divisor})"


@dataclass(frozen=True)
class Least:
    """The lesser of an expression and a number."""

    value: SymbolicSize
    limit: int

    @property
    def typical(self) -> int:
        return min(self.value.typical, self.limit)

    @property
    def is_natural(self) -> bool:
        return self.limit >= 0 and _is_natural(self.value)

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.value.extents

    def replaced(self, known: Mapping[Extent, Size]) -> Size:
        return least(self.value.replaced(known), self.limit)

    def written(self, name: Callable[[Extent], object]) -> str:
        return f"min({self.value.written(name)}, {self.limit})"


Atom: TypeAlias = Extent | Quotient | Least
Monomial: TypeAlias = tuple[Atom, ...]
"""A product of atoms, ordered by `_rank`; of none, 1."""

_NUMBERS: WeakKeyDictionary[SSAValue, int] = WeakKeyDictionary()
_COUNTER = count()


def _rank(atom: Atom) -> tuple[Any, ...]:
    """
    Sort key of atoms: equal for equal atoms, and the same in every run of the same program.

    Values are numbered at first use, because their hashes differ between processes.
    """
    if isinstance(atom, Extent):
        if atom.value not in _NUMBERS:
            _NUMBERS[atom.value] = next(_COUNTER)
        return (0, _NUMBERS[atom.value], atom.dimension)
    if isinstance(atom, Quotient):
        return (1, _ranks(atom.dividend), atom.divisor)
    return (2, _ranks(atom.value), atom.limit)


def _ranks(size: SymbolicSize) -> tuple[Any, ...]:
    return tuple(sorted((tuple(map(_rank, atoms)), factor) for atoms, factor in size.terms))


class SymbolicSize:
    """A size that is known only when the program runs; see the module."""

    __slots__ = ("_hash", "terms")

    terms: tuple[tuple[Monomial, int], ...]
    """Each product of atoms with its factor, which is not 0; one product at least has an atom."""

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]):
        self.terms = terms
        # Expressions hold expressions, and all are keys: without this, most of a compiler's time.
        self._hash = hash(frozenset(terms))

    @property
    def typical(self) -> int:
        """The size that choices are made for."""
        total = 0
        for atoms, factor in self.terms:
            for atom in atoms:
                factor *= atom.typical
            total += factor
        return total

    @property
    def content(self) -> int:
        """The largest number that divides the size, whatever its dynamic dimensions are."""
        return gcd(*(factor for _, factor in self.terms))

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The dimensions that it is computed from, in order."""
        atoms = (atom for atoms, _ in self.terms for atom in atoms)
        return tuple(dict.fromkeys(extent for atom in atoms for extent in atom.extents))

    def replaced(self, known: Mapping[Extent, Size]) -> Size:
        """Returns the size with other sizes in the place of some extents."""
        total: Size = 0
        for atoms, factor in self.terms:
            term: Size = factor
            for atom in atoms:
                term = term * atom.replaced(known)
            total = total + term
        return total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolicSize) and dict(self.terms) == dict(other.terms)

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        raise UnknownSizeError(
            "whether a dynamic size is 0 is known only when the program runs: compare its "
            "`typical` size to choose, or ask `surely_below(0, size)`"
        )

    def __add__(self, other: Size) -> Size:
        if not isinstance(other, int | SymbolicSize):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        terms = dict(self.terms)
        for atoms, factor in _terms(other):
            terms[atoms] = terms.get(atoms, 0) + factor
        return _size(terms)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return _size({atoms: -factor for atoms, factor in self.terms})

    def __sub__(self, other: Size) -> Size:
        return self + -other

    def __rsub__(self, other: int) -> Size:
        return -self + other

    def __mul__(self, other: Size) -> Size:
        if not isinstance(other, int | SymbolicSize):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        terms: dict[Monomial, int] = {}
        for first, factor in self.terms:
            for second, other_factor in _terms(other):
                atoms = tuple(sorted((*first, *second), key=_rank))
                terms[atoms] = terms.get(atoms, 0) + factor * other_factor
        return _size(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        """Raises `UnknownSizeError` for a divisor that may be 0, or leaves a rest."""
        if not isinstance(other, int | SymbolicSize):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        if isinstance(other, SymbolicSize):
            quotient = exact_quotient(self, other)
            if quotient is None:
                raise UnknownSizeError(
                    "whether one dynamic size divides another is known only when the program "
                    "runs: ask `exact_quotient`, or divide `typical` sizes to choose"
                )
            return quotient
        if other < 1:
            raise UnknownSizeError(f"a dynamic size is divided by {other}: divide by 1 or more")
        whole = {atoms: factor // other for atoms, factor in self.terms if factor % other == 0}
        rest = _size({atoms: factor for atoms, factor in self.terms if factor % other})
        if isinstance(rest, SymbolicSize):
            signs = {factor < 0 for atoms, factor in rest.terms if atoms}
            if signs == {True}:
                # -x / n rounded down is -(x / n rounded up).
                return _size(whole) - ceil_div(-rest, other)
            if True in signs:
                # Apart from the whole, the rest may be negative: kernels divide natural numbers.
                return symbol(Quotient(self, other))
            return _size(whole) + _size({(Quotient(rest, other),): 1})
        return _size(whole) + rest // other

    def written(self, name: Callable[[Extent], object]) -> str:
        """The expression as text; `name` gives the names of extents."""
        text = ""
        for atoms, factor in sorted(self.terms, key=lambda term: (term[1] < 0, not term[0])):
            parts = [atom.written(name) for atom in atoms]
            if abs(factor) != 1 or not parts:
                parts.append(str(abs(factor)))
            term = " * ".join(parts)
            if text:
                text += f" {'-' if factor < 0 else '+'} {term}"
            else:
                text = f"0 - {term}" if factor < 0 else term
        return text

    def __str__(self) -> str:
        """The expression with the model's names of sizes, `?` for those without a name."""
        named = all(extent.name for extent in self.extents)
        return self.written(lambda extent: extent.name) if named else "?"

    __repr__ = __str__


Size: TypeAlias = int | SymbolicSize


def _size(terms: Mapping[Monomial, int]) -> Size:
    """The size with these terms; a plain number if only a number is left."""
    kept = {atoms: factor for atoms, factor in terms.items() if factor}
    if not set(kept) - {()}:
        return kept.get((), 0)
    return SymbolicSize(tuple(kept.items()))


def _terms(size: Size) -> Iterable[tuple[Monomial, int]]:
    return size.terms if isinstance(size, SymbolicSize) else [((), size)]


def symbol(atom: Atom) -> SymbolicSize:
    """The size that is one atom."""
    return SymbolicSize((((atom,), 1),))


def is_dynamic(size: object) -> TypeIs[SymbolicSize]:
    """Whether a size is known only when the program runs."""
    return isinstance(size, SymbolicSize)


def typical(size: Size) -> int:
    """Returns the size for which schedules are chosen; a known size is its own."""
    return size.typical if isinstance(size, SymbolicSize) else size


@overload
def least(size: int, limit: int) -> int: ...
@overload
def least(size: Size, limit: int) -> Size: ...
def least(size: Size, limit: int) -> Size:
    """The minimum of a size and a known number."""
    return symbol(Least(size, limit)) if isinstance(size, SymbolicSize) else min(size, limit)


def lesser(a: Size, b: Size) -> Size:
    """The minimum of two sizes."""
    if surely_below(a, b + 1):
        return a
    return b if surely_below(b, a) else b + least(a - b, 0)


def greater(a: Size, b: Size) -> Size:
    """The maximum of two sizes."""
    return a + b - lesser(a, b)


@overload
def ceil_div(size: int, divisor: int) -> int: ...
@overload
def ceil_div(size: Size, divisor: int) -> Size: ...
def ceil_div(size: Size, divisor: int) -> Size:
    """`size / divisor`, rounded up."""
    return (size + (divisor - 1)) // divisor


def exact_quotient(size: Size, divisor: Size) -> Size | None:
    """`size / divisor`, both nonzero, if that never leaves a remainder; else None."""
    if divisor == 0:
        return None
    atoms, number = max(_terms(divisor), key=_degree)
    quotient: Size = 0
    rest = size
    while rest != 0:
        product, factor = max(_terms(rest), key=_degree)
        left = list(product)
        for atom in atoms:
            if atom in left:
                left.remove(atom)
        if factor % number or len(left) != len(product) - len(atoms):
            return None
        term = _size({tuple(left): factor // number})
        quotient, rest = quotient + term, rest - term * divisor
    return quotient


def _degree(term: tuple[Monomial, int]) -> tuple[Any, ...]:
    """Orders the terms of a polynomial so that products are ordered as their factors are."""
    return (len(term[0]), sorted(map(_rank, term[0]), reverse=True))


def static(sizes: Iterable[Size]) -> tuple[int, ...]:
    """The sizes as numbers; raises `UnknownSizeError` if one is not known."""
    numbers: list[int] = []
    for size in sizes:
        if isinstance(size, SymbolicSize):
            raise UnknownSizeError("a size is known only when the program runs: it must be static")
        numbers.append(size)
    return tuple(numbers)


def surely_below(a: Size, b: Size) -> bool:
    """Whether a < b for all values of the sizes, including 0."""
    return _is_natural(b - a - 1)


def _is_natural(size: Size) -> bool:
    """Whether a size is certainly 0 or more: a sum of products of natural numbers."""
    return all(
        factor >= 0 and all(atom.is_natural for atom in atoms) for atoms, factor in _terms(size)
    )


def common_divisor(*sizes: Size) -> int:
    """Returns the largest number that divides all sizes at all values; 0 if all are 0."""
    return gcd(*(size.content if isinstance(size, SymbolicSize) else size for size in sizes))


def is_multiple(size: Size, divisor: int) -> bool:
    """Whether a number divides a size for all values of the sizes."""
    return common_divisor(size) % divisor == 0


def named_sizes(sizes: Iterable[Size]) -> str:
    """Writes sizes as `MxN`, for names; D stands for a size that is not known."""
    return "x".join("D" if is_dynamic(size) else str(size) for size in sizes)
