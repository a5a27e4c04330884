"""
Sizes that are known only when a program runs, in the arithmetic of those that are known before.

A `Size` is a number to whoever chooses (its value is the one that is typical) and an expression to
whoever writes code: a polynomial over `Extent`s, the dynamic dimensions of buffers, and over
quotients of such polynomials. Sums and products keep the expression, `//` divides it where that
goes without a rest, and `%` is 0 only where it is 0 whatever the sizes are. So what is known of
static dimensions (a row of 768 elements moves in vectors) stays known beside dynamic ones, and a
dynamic size is never taken for one that a tile divides. Two sizes are equal if their expressions
are.

What must hold for every size is asked by `surely_below`; `<` and its like answer for typical ones
where they must.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from xdsl.dialects import affine, arith, bufferization, linalg, memref, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, MemRefType, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

from xdsl_spirv.dialects.schedule import PaddedViewOp

TYPICAL = 512
"""What a dynamic size is taken for where a choice must be made."""

_typical: ContextVar[int] = ContextVar("typical", default=TYPICAL)


@contextmanager
def typical_size(size: int) -> Generator[None]:
    """Dynamic sizes that are met inside are taken for `size`."""
    token = _typical.set(size)
    try:
        yield
    finally:
        _typical.reset(token)


@dataclass(frozen=True)
class Extent:
    """A dynamic dimension of a tensor or buffer; of a number of type `index`, the number itself."""

    value: SSAValue
    dimension: int


@dataclass(frozen=True)
class Quotient:
    """An expression divided by a number, the rest dropped."""

    dividend: Size
    divisor: int


@dataclass(frozen=True)
class Least:
    """The lesser of an expression and a number."""

    value: Size
    limit: int


Atom: TypeAlias = Extent | Quotient | Least
Monomial: TypeAlias = tuple[Atom, ...]
"""A product of atoms, ordered by when they were first met; of none, 1."""


class Size(int):
    """A size with an expression; see the module. Its value as an `int` is the typical one."""

    terms: tuple[tuple[Monomial, int], ...]
    """Each product of atoms with its factor."""

    _hash: int | None = None

    @staticmethod
    def of(terms: Mapping[Monomial, int]) -> int:
        """The size with these terms: a plain number where only a number is left."""
        kept = {atoms: factor for atoms, factor in terms.items() if factor}
        if not set(kept) - {()}:
            return kept.get((), 0)
        total = 0
        for atoms, factor in kept.items():
            for atom in atoms:
                factor *= _value(atom)
            total += factor
        made = int.__new__(Size, total)
        made.terms = tuple(kept.items())
        return made

    @property
    def content(self) -> int:
        """The largest number that divides it whatever the sizes are."""
        return gcd(*(factor for _, factor in self.terms))

    @property
    def extents(self) -> list[Extent]:
        """The dimensions that it is computed from, in order."""
        found: dict[Extent, None] = {}
        for atoms, _ in self.terms:
            for atom in atoms:
                found |= dict.fromkeys(_extents(atom))
        return list(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and dict(self.terms) == dict(other.terms)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        # Expressions hold expressions, and all are keys: without this, most of a compiler's time.
        if self._hash is None:
            self._hash = hash(frozenset(self.terms))
        return self._hash

    def __add__(self, other: int) -> int:
        if not isinstance(other, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        terms = dict(self.terms)
        for atoms, factor in _terms(other):
            terms[atoms] = terms.get(atoms, 0) + factor
        return Size.of(terms)

    __radd__ = __add__

    def __neg__(self) -> int:
        return Size.of({atoms: -factor for atoms, factor in self.terms})

    def __sub__(self, other: int) -> int:
        return self + -other

    def __rsub__(self, other: int) -> int:
        return -self + other

    def __mul__(self, other: int) -> int:
        if not isinstance(other, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        terms: dict[Monomial, int] = {}
        for first, factor in self.terms:
            for second, other_factor in _terms(other):
                atoms = _product(first, second)
                terms[atoms] = terms.get(atoms, 0) + factor * other_factor
        return Size.of(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> int:
        if isinstance(other, Size):
            exact = self._exactly(other)
            return int(self) // int(other) if exact is None else exact
        if all(factor % other == 0 for _, factor in self.terms):
            return Size.of({atoms: factor // other for atoms, factor in self.terms})
        whole = {a: f for a, f in self.terms if f % other == 0}
        rest = Size.of({a: f for a, f in self.terms if a not in whole})
        if not isinstance(rest, Size):
            return Size.of({a: f // other for a, f in whole.items()}) + rest // other
        return Size.of({a: f // other for a, f in whole.items()}) + Size.of(
            {(Quotient(rest, other),): 1}
        )

    def __rfloordiv__(self, other: int) -> int:
        return other // int(self)

    def __mod__(self, other: int) -> int:
        """0 if it is 0 for all sizes, else another number."""
        if isinstance(other, Size):
            return 0 if self._exactly(other) is not None else 1
        return 0 if self.content % other == 0 else 1

    def _exactly(self, other: Size) -> int | None:
        """The quotient of a product of sizes that divides every term, if it is one."""
        if self == other:
            return 1
        if len(other.terms) != 1:
            return None
        ((divisor, number),) = other.terms
        terms: dict[Monomial, int] = {}
        for atoms, factor in self.terms:
            left = list(atoms)
            for atom in divisor:
                if atom not in left:
                    return None
                left.remove(atom)
            if factor % number:
                return None
            terms[tuple(left)] = factor // number
        return Size.of(terms)

    def replaced(self, known: Mapping[Extent, int]) -> int:
        """The same with other sizes in the place of some extents."""
        total = 0
        for atoms, factor in self.terms:
            for atom in atoms:
                factor = factor * _replaced(atom, known)
            total = total + factor
        return total

    def __rmod__(self, other: int) -> int:
        return 1

    def _order(self, other: int) -> int:
        """The sign of the difference: for all sizes, or else for typical ones."""
        difference = self - other
        if not isinstance(difference, Size):
            return difference
        return sign if (sign := _sign(difference)) is not None else int(self) - int(other)

    def __lt__(self, other: int) -> bool:
        return self._order(other) < 0

    def __le__(self, other: int) -> bool:
        return self._order(other) <= 0

    def __gt__(self, other: int) -> bool:
        return self._order(other) > 0

    def __ge__(self, other: int) -> bool:
        return self._order(other) >= 0

    def __str__(self) -> str:
        return "?"

    __repr__ = __str__


def _extents(atom: Atom) -> list[Extent]:
    if isinstance(atom, Extent):
        return [atom]
    return (atom.dividend if isinstance(atom, Quotient) else atom.value).extents


def least(size: int, limit: int) -> int:
    """The lesser of a size and a number that is known."""
    return Size.of({(Least(size, limit),): 1}) if isinstance(size, Size) else min(size, limit)


def _replaced(atom: Atom, known: Mapping[Extent, int]) -> int:
    if isinstance(atom, Extent):
        return known.get(atom, Size.of({(atom,): 1}))
    if isinstance(atom, Least):
        return least(atom.value.replaced(known), atom.limit)
    dividend = atom.dividend.replaced(known)
    return dividend // atom.divisor


def _value(atom: Atom) -> int:
    match atom:
        case Extent():
            return _typical.get()
        case Quotient():
            return int(atom.dividend) // atom.divisor
        case Least():
            return min(int(atom.value), atom.limit)


def _terms(size: int) -> Iterable[tuple[Monomial, int]]:
    return size.terms if isinstance(size, Size) else [((), size)]


def _product(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted((*a, *b), key=hash))


def _sign(size: Size) -> int | None:
    """1 or -1 where that is so for all sizes from 1; None where it is not known."""
    factors = [factor for _, factor in size.terms]
    if all(factor > 0 for factor in factors):
        return 1
    return -1 if all(factor < 0 for factor in factors) else None


def surely_below(a: int, b: int) -> bool:
    """Whether a < b whatever the sizes are, for which 0 counts too."""
    difference = b - a
    if not isinstance(difference, Size):
        return difference > 0
    terms = dict(difference.terms)
    return all(factor > 0 for factor in terms.values()) and () in terms


def is_dynamic(size: int) -> bool:
    """Whether a size is known only when the program runs."""
    return isinstance(size, Size)


def common_divisor(*sizes: int) -> int:
    """The largest number that divides all of them whatever they are; 0 if all are 0."""
    return gcd(*(size.content if isinstance(size, Size) else size for size in sizes))


def ceil_div(a: int, b: int) -> int:
    """`a / b`, rounded up."""
    return (a + (b - 1)) // b


# What the sizes of values are


def extent(value: SSAValue, dimension: int) -> int:
    """
    The size of a tensor's or buffer's dimension.

    What is computed from others, operation by operation, has a size in terms of theirs.
    """
    type = value.type
    assert isinstance(type, TensorType | MemRefType)
    size = type.get_shape()[dimension]
    return size if size != DYNAMIC_INDEX else _found(value, dimension)


def extents(value: SSAValue) -> tuple[int, ...]:
    """The sizes of all dimensions of a tensor or buffer."""
    type = value.type
    assert isinstance(type, TensorType | MemRefType)
    return tuple(extent(value, dimension) for dimension in range(type.get_num_dims()))


def _found(value: SSAValue, dimension: int) -> int:
    if isinstance(value, BlockArgument):
        return _symbol(value, dimension)
    match value.owner:
        case PaddedViewOp() as op:
            around = op.low.get_values()[dimension] + op.high.get_values()[dimension]
            return extent(op.memref, dimension) + around
        case tensor.PadOp() as op:
            around = (op.static_low.get_values()[dimension], op.static_high.get_values()[dimension])
            if DYNAMIC_INDEX not in around:
                return extent(op.source, dimension) + sum(around)
        case tensor.EmptyOp() | memref.AllocOp() | tensor.SplatOp() as op:
            type = op.results[0].type
            assert isinstance(type, TensorType | MemRefType)
            before = type.get_shape()[:dimension].count(DYNAMIC_INDEX)
            given = op.operands[1:] if isinstance(op, tensor.SplatOp) else op.operands
            return number(given[before])
        case tensor.CastOp() | memref.CastOp() as op:
            return extent(op.operands[0], dimension)
        case bufferization.ToBufferOp() | bufferization.ToTensorOp() as op:
            return extent(op.operands[0], dimension)
        case tensor.ExtractSliceOp() as op:
            static = [int(size) for size in op.static_sizes.get_values()]
            kept = _kept(static, extents_type(value))
            return _listed(static, op.sizes, kept[dimension])
        case tensor.ConcatOp() as op:
            parts = [extent(each, dimension) for each in op.inputs]
            return sum(parts) if dimension == op.dim.value.data else parts[0]
        case tensor.InsertSliceOp() as op:
            return extent(op.dest, dimension)
        case tensor.ExpandShapeOp() | memref.ExpandShapeOp() as op:
            return _listed(op.static_output_shape.get_values(), op.operands[1:], dimension)
        case tensor.CollapseShapeOp() | memref.CollapseShapeOp() as op:
            total = 1
            for each in op.reassociation.data[dimension].data:
                total *= extent(op.operands[0], each.value.data)
            return total
        case LinalgStructuredOperation() as op:
            return _computed(op, value, dimension)
        case _:
            pass
    return _symbol(value, dimension)


def _kept(sizes: list[int], shape: tuple[int, ...]) -> list[int]:
    """The dimensions that are left when some of size 1 are dropped to give `shape`."""
    kept: list[int] = []
    for axis, size in enumerate(sizes):
        if len(kept) < len(shape) and size == shape[len(kept)]:
            kept.append(axis)
    return kept


def extents_type(value: SSAValue) -> tuple[int, ...]:
    """The shape that a value's type states."""
    assert isinstance(value.type, TensorType | MemRefType)
    return value.type.get_shape()


def _listed(static: Iterable[int], dynamic: Iterable[SSAValue], dimension: int) -> int:
    listed = list(static)
    if listed[dimension] != DYNAMIC_INDEX:
        return listed[dimension]
    return number(list(dynamic)[listed[:dimension].count(DYNAMIC_INDEX)])


def _computed(op: LinalgStructuredOperation, value: SSAValue, dimension: int) -> int:
    """The size of a result: an input's dimension that the same loop walks, or else the output's."""
    index = next(n for n, result in enumerate(op.results) if result is value)
    maps = [each.data for each in op.get_indexing_maps()]
    walked = maps[len(op.inputs) + index].results[dimension]
    if isinstance(walked, AffineDimExpr) and not isinstance(op, linalg.ops.FillOp):
        for each, map in zip(op.inputs, maps, strict=False):
            for at, expression in enumerate(map.results):
                if expression == walked and isinstance(each.type, TensorType | MemRefType):
                    return extent(each, at)
    return extent(op.outputs[index], dimension)


def loop_extents(op: LinalgStructuredOperation) -> list[int | None]:
    """The sizes of an operation's loops; None where no operand's dimension is a loop alone."""
    maps = [each.data for each in op.get_indexing_maps()]
    found: list[int | None] = [None] * maps[0].num_dims
    for value, map in zip((*op.inputs, *op.outputs), maps, strict=True):
        if not isinstance(value.type, TensorType | MemRefType):
            continue
        for dimension, expression in enumerate(map.results):
            if isinstance(expression, AffineDimExpr):
                known = found[expression.position]
                if known is None or is_dynamic(known):
                    size = extent(value, dimension)
                    if known is None or not is_dynamic(size):
                        found[expression.position] = size
    return found


def tied_extents(ops: Iterable[Operation]) -> dict[Extent, int]:
    """
    Sizes that operations need to be equal to others: what each of them is in terms of the first.
    """
    known: dict[Extent, int] = {}

    def plain(size: int) -> int:
        while isinstance(size, Size) and any(each in known for each in size.extents):
            size = size.replaced(known)
        return size

    for op in ops:
        if not isinstance(op, LinalgStructuredOperation) or isinstance(op, linalg.ops.FillOp):
            continue
        sizes = loop_extents(op)
        maps = [each.data for each in op.get_indexing_maps()]
        for value, map in zip((*op.inputs, *op.outputs), maps, strict=True):
            if not isinstance(value.type, TensorType | MemRefType):
                continue
            for dimension, expression in enumerate(map.results):
                if not isinstance(expression, AffineDimExpr):
                    continue
                first, size = sizes[expression.position], plain(extent(value, dimension))
                first = size if first is None else plain(first)
                if not isinstance(size, Size) or size == first:
                    continue
                each = size.extents[0]
                if len(size.extents) == 1 and size == _symbol(each.value, each.dimension):
                    if not isinstance(first, Size) or each not in first.extents:
                        known[each] = first
    return {each: plain(size) for each, size in known.items()}


def _symbol(value: SSAValue, dimension: int) -> int:
    return Size.of({(Extent(value, dimension),): 1})


OPERATIONS: dict[type, Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
}

DIVISIONS: dict[type, Callable[[int, int], int]] = {
    arith.DivUIOp: lambda a, b: a // b,
    arith.DivSIOp: lambda a, b: a // b,
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.CeilDivUIOp: ceil_div,
    arith.CeilDivSIOp: ceil_div,
}


def number(value: SSAValue) -> int:
    """What a number of type `index` (or an integer made of one) is in terms of sizes."""
    match value.owner:
        case arith.ConstantOp(value=IntegerAttr() as constant):
            return constant.value.data
        case tensor.DimOp() | memref.DimOp() as op:
            at = number(op.index)
            if not isinstance(at, Size):
                return extent(op.source, at)
        case arith.IndexCastOp() as op:
            return number(op.input)
        case affine.ApplyOp() as op:
            map = op.map.data
            operands = [number(each) for each in op.mapOperands]
            found = _evaluated(map.results[0], operands, map.num_dims)
            if found is not None:
                return found
        case op if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](*(number(each) for each in op.operands))  # pyright: ignore
        case arith.MinUIOp() | arith.MinSIOp() as op:
            sizes = sorted((number(each) for each in op.operands), key=is_dynamic)
            if not is_dynamic(sizes[0]):
                return least(sizes[1], sizes[0])
        case op if type(op) in DIVISIONS:
            a, b = (number(each) for each in op.operands)  # pyright: ignore
            if not isinstance(b, Size) and b > 0:
                return DIVISIONS[type(op)](a, b)
        case _:
            pass
    return _symbol(value, 0)


def _evaluated(expression: AffineExpr, operands: list[int], dims: int) -> int | None:
    match expression:
        case AffineConstantExpr(value=value):
            return value
        case AffineDimExpr(position=position):
            return operands[position]
        case AffineSymExpr(position=position):
            return operands[dims + position]
        case AffineBinaryOpExpr(kind=kind, lhs=left, rhs=right):
            a, b = _evaluated(left, operands, dims), _evaluated(right, operands, dims)
            if a is None or b is None:
                return None
            match kind:
                case AffineBinaryOpKind.Add:
                    return a + b
                case AffineBinaryOpKind.Mul:
                    return a * b
                case AffineBinaryOpKind.FloorDiv if not isinstance(b, Size):
                    return a // b
                case AffineBinaryOpKind.CeilDiv if not isinstance(b, Size):
                    return ceil_div(a, b)
                case _:
                    return None
        case _:
            return None
