"""
Defines symbolic values. A scalar is a term of bits (or a Boolean), with the condition under which
the value is undefined.

Vectors, arrays and structs are tuples of values. Operations on an undefined value are undefined,
as with LLVM's poison. A selection is undefined if the selected value or the condition is. Floats
are their IEEE bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeAlias

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType
from xdsl.dialects.builtin import VectorType as BuiltinVectorType
from xdsl.ir import Attribute

from xdsl_spirv.dialects.spirv.types import ArrayType, MatrixType, StructType

z3: Any = import_module("z3")
"""The module z3, typed as Any because it has no type annotations."""

# Does not split comparisons into bits, so that they are recognized in other conditions.
z3.set_param("rewriter.bv_le2extract", False)

Term: TypeAlias = Any
"""A z3 term: a bit-vector or a Boolean."""

NEVER: Term = z3.BoolVal(False)
ALWAYS: Term = z3.BoolVal(True)


class Unsupported(Exception):
    """Raised if the analysis does not support an operation, with the reason."""

    def __init__(self, reason: str, op: Any = None):
        self.reason, self.op = reason, op
        super().__init__(reason)


@dataclass(frozen=True)
class Scalar:
    """A term of bits or a Boolean, and the condition under which its value is undefined."""

    term: Term
    undefined: Term = NEVER


Value: TypeAlias = Any
"""A `Scalar`, a pointer, or a tuple of values."""


def either(conditions: Sequence[Term]) -> Term:
    """Returns the disjunction of conditions, without duplicates and conditions that are false."""
    held = list({c.get_id(): c for c in conditions if not z3.is_false(c)}.values())
    if not held:
        return NEVER
    return held[0] if len(held) == 1 else z3.Or(*held)


def both(a: Term, b: Term) -> Term:
    """Returns the conjunction, simplified if one side is known."""
    if z3.is_true(a) or z3.is_false(b):
        return b
    return a if z3.is_true(b) or z3.is_false(a) else z3.And(a, b)


def negate(a: Term) -> Term:
    """Returns the negation, simplified if the condition is known."""
    if z3.is_true(a) or z3.is_false(a):
        return z3.BoolVal(z3.is_false(a))
    return a.arg(0) if z3.is_not(a) else z3.Not(a)


def choose_term(condition: Term, a: Term, b: Term) -> Term:
    """Returns `a` where the condition holds, otherwise `b`."""
    if z3.is_true(condition) or a.eq(b):
        return a
    return b if z3.is_false(condition) else z3.If(condition, a, b)


def choose(condition: Term, a: Value, b: Value) -> Value:
    """Applies `choose_term` to each scalar. Raises `Unsupported` for a choice between pointers."""
    if a is b:
        return a
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(choose(condition, x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        undefined = choose_term(condition, a.undefined, b.undefined)
        return Scalar(choose_term(condition, a.term, b.term), undefined)
    if a == b:
        return a
    raise Unsupported("a pointer that a condition selects is not supported")


def scalars(value: Value) -> Iterator[Scalar]:
    """Yields the scalars of a value in order. Raises `Unsupported` for pointers."""
    if isinstance(value, Scalar):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from scalars(part)
    else:
        raise Unsupported("a pointer, or a composite of pointers, is used where numbers are needed")


FLOAT_SORTS: dict[type[Attribute], tuple[int, int]] = {
    Float16Type: (5, 11),
    BFloat16Type: (8, 8),
    Float32Type: (8, 24),
    Float64Type: (11, 53),
}
"""(exponent bits, significand bits) as SMT-LIB counts them."""


def width(type: Attribute) -> int:
    """Returns the bits of a number's type, 1 for a Boolean."""
    if isinstance(type, IntegerType):
        return type.width.data
    sizes = FLOAT_SORTS.get(type.__class__)
    if sizes is None:
        raise Unsupported(f"values of type {type} are not supported")
    return sum(sizes)


def float_sort(type: Attribute) -> Any:
    """Returns the FP-theory sort of a float type."""
    sizes = FLOAT_SORTS.get(type.__class__)
    if sizes is None:
        raise Unsupported(f"arithmetic on {type} is not supported")
    return z3.FPSort(*sizes)


def parts_of(type: Attribute, lengths: Callable[[Any], int]) -> Sequence[Attribute] | None:
    """Returns the types of a composite's parts, or None for a number's type."""
    match type:
        case BuiltinVectorType():
            (count,) = type.get_shape()
            return [type.element_type] * count
        case MatrixType():
            return [type.column_type] * type.columns.data
        case ArrayType():
            return [type.element_type] * lengths(type.length)
        case StructType():
            return list(type.member_types)
        case _:
            return None


def build(type: Attribute, leaf: Callable[[Attribute], Value], lengths: Any = None) -> Value:
    """
    Builds a value of a type. `leaf` creates each number from its type. `lengths` returns an array's
    length.
    """
    parts = parts_of(type, lengths or _plain_length)
    if parts is None:
        return leaf(type)
    if len(parts) > 4096:
        raise Unsupported(f"a variable of {len(parts)} elements is not supported: more than 4096")
    return tuple(build(part, leaf, lengths) for part in parts)


def _plain_length(length: Any) -> int:
    number = getattr(length, "data", None)
    if not isinstance(number, int):
        raise Unsupported(f"an array of unknown length ({length}) is not supported")
    return number


def constant_term(bits: int, type: Attribute) -> Term:
    """Creates the term of a known number."""
    size = width(type)
    return z3.BoolVal(bool(bits & 1)) if size == 1 else z3.BitVecVal(bits, size)


def variable_term(name: str, type: Attribute) -> Term:
    """Creates a named unknown of a number's type."""
    size = width(type)
    return z3.Bool(name) if size == 1 else z3.BitVec(name, size)


def known_number(term: Term) -> int | None:
    """Returns the value of a term that simplifies to a constant, or None."""
    if not z3.is_bv_value(term):
        term = z3.simplify(term)
    return term.as_long() if z3.is_bv_value(term) else None


@dataclass
class Terms:
    """
    A source of fresh symbols, with their definitions.

    With `exact_floats`, float arithmetic rounds like IEEE 754; else it is uninterpreted.
    """

    exact_floats: bool = False
    definitions: list[Term] = field(default_factory=list[Term])
    """Conditions that define the fresh constants. Every query contains them."""
    count: int = 0
    uninterpreted: int = 0
    """Number of instructions so far that are treated as uninterpreted functions."""

    def fresh(self, name: str, type: Attribute) -> Term:
        """Creates a new unknown number."""
        self.count += 1
        return variable_term(f"{name}!{self.count}", type)


def applications_of(terms: Sequence[Term]) -> list[Term]:
    """Returns the symbols and the applications of uninterpreted functions in terms."""
    seen, pending, found = set[int](), list(terms), list[Term]()
    while pending:
        term = pending.pop()
        if term.get_id() not in seen:
            seen.add(term.get_id())
            pending += term.children()
            if z3.is_app(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
                found.append(term)
    return found


def constants_of(terms: Sequence[Term]) -> list[Term]:
    """Returns the symbols in terms."""
    return [term for term in applications_of(terms) if z3.is_const(term)]
