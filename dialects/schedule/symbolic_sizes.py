"""
Represents sizes that are known only at run time, as expressions of buffers' dimensions.

A `Size` is an `int` if it is known, else a `SymbolicSize`: a polynomial over `Extent`s (dynamic
dimensions of tensors and buffers) and over quotients and minima of polynomials. `+`, `-` and `*`
of sizes are sizes. `//` by a positive number is exact; `//` by a symbolic size works only if the
remainder is always 0. Two sizes are equal if their expressions are equal.

A symbolic size has no order, remainder, truth value or numeric value, so that it cannot be
mistaken for a number. Use `typical` for heuristics. Use `surely_below`, `is_multiple` and
`common_divisor` for facts that hold for every size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from math import gcd
from typing import Any, ClassVar, TypeAlias, overload
from weakref import WeakKeyDictionary

from typing_extensions import TypeIs
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

TYPICAL = 512
"""The value of a dynamic size that heuristics assume."""

TYPICAL_SIZE = "schedule.typical_size"
"""Module attribute that overrides `TYPICAL`."""


class UnknownSizeError(ArithmeticError):
    """Error for code that needs the numeric value of a symbolic size."""


@dataclass(frozen=True)
class Extent:
    """A dynamic dimension of a tensor or buffer, or a value of type `index`."""

    value: SSAValue
    dimension: int
    name: str = field(default="", compare=False)
    """The name of the size in the model, for messages."""

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
class Computed(ABC):
    """
    Base class of factors (quotients, minima) that are computed from a symbolic size and a number.
    """

    size: SymbolicSize
    number: int
    TEXT: ClassVar[str]

    @abstractmethod
    def apply(self, size: Size) -> Size:
        """Computes the quotient or minimum for another size, with the same number."""

    @property
    def typical(self) -> int:
        return typical(self.apply(self.size.typical))

    @property
    def is_natural(self) -> bool:
        return self.number >= 0 and _is_natural(self.size)

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.size.extents

    def replaced(self, known: Mapping[Extent, Size]) -> Size:
        return self.apply(self.size.replaced(known))

    def written(self, name: Callable[[Extent], object]) -> str:
        return self.TEXT.format(self.size.written(name), self.number)


class Quotient(Computed):
    """A size divided by a positive number, rounded down."""

    TEXT = "(({}) / {})"

    def apply(self, size: Size) -> Size:
        return size // self.number


class Least(Computed):
    """The minimum of a size and a number."""

    TEXT = "min({}, {})"

    def apply(self, size: Size) -> Size:
        return least(size, self.number)


Atom: TypeAlias = Extent | Quotient | Least
Monomial: TypeAlias = tuple[Atom, ...]
"""A product of extents, quotients and minima, sorted by `_rank`. The empty product is 1."""

_NUMBERS: WeakKeyDictionary[SSAValue, int] = WeakKeyDictionary()
_COUNTER = count()


def _rank(atom: Atom) -> tuple[Any, ...]:
    """
    Returns a sort key of an extent, quotient or minimum. It is the same in every run of a program.

    Values are numbered at first use, since their hashes differ between processes.
    """
    if isinstance(atom, Extent):
        if atom.value not in _NUMBERS:
            _NUMBERS[atom.value] = next(_COUNTER)
        return (0, _NUMBERS[atom.value], atom.dimension)
    return (1 + isinstance(atom, Least), _ranks(atom.size), atom.number)


def _ranks(size: SymbolicSize) -> tuple[Any, ...]:
    return tuple(sorted((tuple(map(_rank, atoms)), factor) for atoms, factor in size.terms))


class SymbolicSize:
    """A size that is known only at run time, as a polynomial of extents, quotients and minima."""

    __slots__ = ("_hash", "terms")

    terms: tuple[tuple[Monomial, int], ...]
    """Pairs of a product and its nonzero factor. At least one product is not empty."""

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]):
        self.terms = terms
        # Cached, since nested expressions are keys of dictionaries, and hashing them is slow.
        self._hash = hash(frozenset(terms))

    @property
    def typical(self) -> int:
        """The numeric value that heuristics assume for the size."""
        total = 0
        for atoms, factor in self.terms:
            for atom in atoms:
                factor *= atom.typical
            total += factor
        return total

    @property
    def content(self) -> int:
        """The largest number that divides the size for all values of its extents."""
        return gcd(*(factor for _, factor in self.terms))

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The dynamic dimensions that the size depends on, in order."""
        atoms = (atom for atoms, _ in self.terms for atom in atoms)
        return tuple(dict.fromkeys(extent for atom in atoms for extent in atom.extents))

    def replaced(self, known: Mapping[Extent, Size]) -> Size:
        """Returns the size after replacing some extents by other sizes."""
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
            "a dynamic size has no truth value before the program runs: compare its `typical` "
            "size in a heuristic, or use `surely_below(0, size)`"
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
        """
        Divides and rounds down. Raises `UnknownSizeError` if the divisor is less than 1. Also
        raises it for a symbolic divisor if the remainder may be nonzero.
        """
        if not isinstance(other, int | SymbolicSize):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        if isinstance(other, SymbolicSize):
            quotient = exact_quotient(self, other)
            if quotient is None:
                raise UnknownSizeError(
                    "the quotient of two dynamic sizes may be fractional: use `exact_quotient`, or "
                    "the quotient of their `typical` values for an estimate"
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
                # The rest alone may be negative, but kernels can only divide natural numbers.
                return symbol(Quotient(self, other))
            return _size(whole) + _size({(Quotient(rest, other),): 1})
        return _size(whole) + rest // other

    def written(self, name: Callable[[Extent], object]) -> str:
        """Returns the expression as text. `name` returns the name of an extent."""
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
        """
        Returns the expression with the names of sizes in the model. An extent without a name is
        `?`.
        """
        named = all(extent.name for extent in self.extents)
        return self.written(lambda extent: extent.name) if named else "?"

    __repr__ = __str__


Size: TypeAlias = int | SymbolicSize


def _size(terms: Mapping[Monomial, int]) -> Size:
    kept = {atoms: factor for atoms, factor in terms.items() if factor}
    if not set(kept) - {()}:
        return kept.get((), 0)
    return SymbolicSize(tuple(kept.items()))


def _terms(size: Size) -> Iterable[tuple[Monomial, int]]:
    return size.terms if isinstance(size, SymbolicSize) else [((), size)]


def symbol(atom: Atom) -> SymbolicSize:
    """Returns the size that consists of a single extent, quotient or minimum."""
    return SymbolicSize((((atom,), 1),))


def is_dynamic(size: object) -> TypeIs[SymbolicSize]:
    """True if a size is known only at run time."""
    return isinstance(size, SymbolicSize)


def format_size(size: Size, name: Callable[[Extent], int | str]) -> int | str:
    """Formats a size as an expression. `name` returns the name of a dynamic dimension."""
    return size.written(name) if is_dynamic(size) else size


def typical(size: Size) -> int:
    """Returns the value that heuristics assume for a size. A known size has its exact value."""
    return size.typical if isinstance(size, SymbolicSize) else size


@overload
def least(size: int, limit: int) -> int: ...
@overload
def least(size: Size, limit: int) -> Size: ...
def least(size: Size, limit: int) -> Size:
    """Returns the minimum of a size and a number."""
    return symbol(Least(size, limit)) if isinstance(size, SymbolicSize) else min(size, limit)


def lesser(a: Size, b: Size) -> Size:
    """Returns the minimum of two sizes."""
    if surely_below(a, b + 1):
        return a
    return b if surely_below(b, a) else b + least(a - b, 0)


def greater(a: Size, b: Size) -> Size:
    """Returns the maximum of two sizes."""
    return a + b - lesser(a, b)


@overload
def ceil_div(size: int, divisor: int) -> int: ...
@overload
def ceil_div(size: Size, divisor: int) -> Size: ...
def ceil_div(size: Size, divisor: int) -> Size:
    """Returns `size / divisor`, rounded up."""
    return (size + (divisor - 1)) // divisor


def exact_quotient(size: Size, divisor: Size) -> Size | None:
    """
    Returns `size / divisor` if the remainder is always 0, otherwise None. `size` must not be 0.
    """
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
    """
    Returns a sort key of a term. The order of two terms does not change if both are multiplied by a
    third one.
    """
    return (len(term[0]), sorted(map(_rank, term[0]), reverse=True))


def static(sizes: Iterable[Size]) -> tuple[int, ...]:
    """Returns the sizes as numbers. Raises `UnknownSizeError` if a size is symbolic."""
    numbers: list[int] = []
    for size in sizes:
        if isinstance(size, SymbolicSize):
            raise UnknownSizeError("a size must be static, but is known only when the program runs")
        numbers.append(size)
    return tuple(numbers)


def surely_below(a: Size, b: Size) -> bool:
    """True if a < b for all values of the extents, 0 included."""
    return _is_natural(b - a - 1)


def _is_natural(size: Size) -> bool:
    """True if no term of a size can be negative."""
    return all(
        factor >= 0 and all(atom.is_natural for atom in atoms) for atoms, factor in _terms(size)
    )


def common_divisor(*sizes: Size) -> int:
    """
    Returns the largest number that divides all sizes, whatever values the extents have. Returns 0
    if all sizes are 0.
    """
    return gcd(*(size.content if isinstance(size, SymbolicSize) else size for size in sizes))


def is_multiple(size: Size, divisor: int) -> bool:
    """True if a number divides a size, whatever values the extents have."""
    return common_divisor(size) % divisor == 0


def named_sizes(sizes: Iterable[Size]) -> str:
    """Formats sizes for use in names, such as `64x32`. A symbolic size is written as `D`."""
    return "x".join("D" if is_dynamic(size) else str(size) for size in sizes)
