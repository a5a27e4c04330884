"""
Builds the bodies of elementwise operations with typed numbers that support Python's operators.

    lambda s, x: s.maximum(x, 0)                       # Relu
    lambda s, x, y: s.select(x < y, x * 2, -y)

The element type of a number selects signed, unsigned or float instructions. Python numbers become
constants of the other operand's type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, linalg, math
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.frontends.onnx import formats
from xdsl_spirv.frontends.onnx.values import BOOL, I64, Element
from xdsl_spirv.upstream.scalar_extensions import IsInfOp, IsNaNOp, RemfOp

Operand: TypeAlias = "Number | float | int | bool"

COMPARISONS = {
    # float (false for NaN), signed, unsigned
    "==": ("oeq", "eq", "eq"),
    "!=": ("une", "ne", "ne"),
    "<": ("olt", "slt", "ult"),
    "<=": ("ole", "sle", "ule"),
    ">": ("ogt", "sgt", "ugt"),
    ">=": ("oge", "sge", "uge"),
}


@dataclass(frozen=True, eq=False)
class Number:
    """A number in a body: an SSA value and its element type."""

    scalars: Scalars
    value: SSAValue
    element: Element
    known: float | None = None
    """The value of a constant number, or None."""

    def __add__(self, other: Operand) -> Number:
        return self.scalars.binary(arith.AddfOp, arith.AddiOp, self, other)

    def __radd__(self, other: Operand) -> Number:
        return self + other

    def __sub__(self, other: Operand) -> Number:
        return self.scalars.binary(arith.SubfOp, arith.SubiOp, self, other)

    def __rsub__(self, other: Operand) -> Number:
        return self.scalars.number(other, self.element) - self

    def __mul__(self, other: Operand) -> Number:
        return self.scalars.binary(arith.MulfOp, arith.MuliOp, self, other)

    def __rmul__(self, other: Operand) -> Number:
        return self * other

    def __truediv__(self, other: Operand) -> Number:
        """Divides; integer quotients are rounded toward zero, as in ONNX."""
        integer = arith.DivSIOp if self.element.is_signed else arith.DivUIOp
        return self.scalars.binary(arith.DivfOp, integer, self, other)

    def __rtruediv__(self, other: Operand) -> Number:
        return self.scalars.number(other, self.element) / self

    def __mod__(self, other: Operand) -> Number:
        """Returns the remainder with the sign of the dividend, as in C."""
        integer = arith.RemSIOp if self.element.is_signed else arith.RemUIOp
        return self.scalars.binary(RemfOp, integer, self, other)

    def __neg__(self) -> Number:
        if self.element.is_float:
            return self.scalars.unary(arith.NegfOp, self)
        return self.scalars.number(0, self.element) - self

    def __and__(self, other: Operand) -> Number:
        return self.scalars.binary(None, arith.AndIOp, self, other)

    def __or__(self, other: Operand) -> Number:
        return self.scalars.binary(None, arith.OrIOp, self, other)

    def __xor__(self, other: Operand) -> Number:
        return self.scalars.binary(None, arith.XOrIOp, self, other)

    def __invert__(self) -> Number:
        return self ^ (1 if self.element.is_bool else -1)

    def __lshift__(self, other: Operand) -> Number:
        return self.scalars.binary(None, arith.ShLIOp, self, other)

    def __rshift__(self, other: Operand) -> Number:
        integer = arith.ShRSIOp if self.element.is_signed else arith.ShRUIOp
        return self.scalars.binary(None, integer, self, other)

    def __lt__(self, other: Operand) -> Number:
        return self.scalars.compare("<", self, other)

    def __le__(self, other: Operand) -> Number:
        return self.scalars.compare("<=", self, other)

    def __gt__(self, other: Operand) -> Number:
        return self.scalars.compare(">", self, other)

    def __ge__(self, other: Operand) -> Number:
        return self.scalars.compare(">=", self, other)

    def equals(self, other: Operand) -> Number:
        return self.scalars.compare("==", self, other)

    def differs(self, other: Operand) -> Number:
        """True if the numbers are not equal; NaN differs from every number."""
        return self.scalars.compare("!=", self, other)

    def to(self, element: Element) -> Number:
        """Converts to another element type, like ONNX's Cast for values in range."""
        return self.scalars.convert(self, element)


class Scalars:
    """Builds scalar operations, such as the body of a `linalg.generic`."""

    def __init__(self, builder: Builder):
        self.builder = builder

    def number(self, value: Operand, element: Element) -> Number:
        """Converts a Python number to a constant of a type; returns a `Number` unchanged."""
        if isinstance(value, Number):
            return value
        if element.narrow:
            code = np.array(float(value)).astype(element.dtype).view(np.int8)
            attribute = IntegerAttr(code.item(), element.type)  # pyright: ignore
        elif element.is_float:
            attribute = FloatAttr(float(value), element.type)  # pyright: ignore
        else:
            bits = element.bits
            wrapped = int(value) & ((1 << bits) - 1)
            signed = wrapped - (1 << bits) if bits > 1 and wrapped >> (bits - 1) else wrapped
            attribute = IntegerAttr(signed if bits > 1 else -wrapped, element.type)  # pyright: ignore
        constant = self._insert(arith.ConstantOp(attribute), element)
        return replace(constant, known=value)

    def as_number(self, value: SSAValue, element: Element) -> Number:
        """Wraps an SSA value as a number."""
        return Number(self, value, element)

    def unary(self, op: type[Operation], x: Number) -> Number:
        """Appends an `arith` or `math` operation on one number. Returns its result."""
        if x.element.narrow:
            raise TypeError(f"numbers of {x.element} can only be converted and copied")
        return self._insert(op(x.value), x.element)  # pyright: ignore[reportCallIssue]

    def binary(
        self, float_op: type[Operation] | None, integer_op: type[Operation], x: Number, y: Operand
    ) -> Number:
        """Appends an operation on two numbers of one type. Raises `TypeError` for other types."""
        other = self.number(y, x.element)
        op = float_op if x.element.is_float else integer_op
        if x.element.narrow:
            raise TypeError(f"numbers of {x.element} can only be converted and copied")
        if op is None or other.element != x.element:
            raise TypeError(f"{x.element} and {other.element} cannot be combined")
        return self._insert(op(x.value, other.value), x.element)  # pyright: ignore

    def compare(self, sign: str, x: Number, y: Operand) -> Number:
        x, other = self.wide(x), self.wide(self.number(y, x.element))
        of_floats, signed, unsigned = COMPARISONS[sign]
        if x.element.is_float:
            return self._insert(arith.CmpfOp(x.value, other.value, of_floats), BOOL)
        predicate = signed if x.element.is_signed else unsigned
        return self._insert(arith.CmpiOp(x.value, other.value, predicate), BOOL)

    def select(self, condition: Number, then: Operand, otherwise: Operand) -> Number:
        """Selects one of two numbers, at least one of which is a `Number`."""
        element = next(v.element for v in (then, otherwise) if isinstance(v, Number))
        a, b = self.number(then, element), self.number(otherwise, element)
        return self._insert(arith.SelectOp(condition.value, a.value, b.value), element)

    def maximum(self, x: Number, y: Operand) -> Number:
        """Returns the maximum, or NaN if an operand is NaN."""
        integer = arith.MaxSIOp if x.element.is_signed else arith.MaxUIOp
        return self.binary(arith.MaximumfOp, integer, x, y)

    def minimum(self, x: Number, y: Operand) -> Number:
        """Returns the minimum, or NaN if an operand is NaN."""
        integer = arith.MinSIOp if x.element.is_signed else arith.MinUIOp
        return self.binary(arith.MinimumfOp, integer, x, y)

    def absolute(self, x: Number) -> Number:
        if not x.element.is_float and not x.element.is_signed:
            return x
        return self.unary(math.AbsFOp if x.element.is_float else math.AbsIOp, x)

    def wide(self, x: Number) -> Number:
        """Converts a number of a narrow type to the type in which such numbers are computed."""
        return x.to(x.element.computed)

    def is_nan(self, x: Number) -> Number:
        return self._insert(IsNaNOp(self.wide(x).value), BOOL)

    def is_infinite(self, x: Number) -> Number:
        return self._insert(IsInfOp(self.wide(x).value), BOOL)

    def exp(self, x: Number) -> Number:
        return self.unary(math.ExpOp, x)

    def index(self, loop: int, element: Element = I64) -> Number:
        """Returns the index of a loop as an integer."""
        position = linalg.ops.IndexOp(loop)
        self.builder.insert(position)
        return self._insert(arith.IndexCastOp(position.results[0], element.type), element)

    def position(self, x: Number) -> SSAValue:
        """Converts a number to an `index` value."""
        cast = arith.IndexCastOp(x.value, IndexType())
        self.builder.insert(cast)
        return cast.results[0]

    def convert(self, x: Number, element: Element) -> Number:
        """Converts a number like `Number.to`."""
        source = x.element
        if source == element:
            return x
        if element.narrow:
            return formats.written(self, x, element)
        if source.narrow:
            return formats.read(self, x).to(element)
        if x.known is not None and not (source.is_float and not element.is_float):
            converted = np.asarray(x.known, source.dtype).astype(element.dtype)
            return self.number(converted.item(), element)
        if element.is_bool:
            return x.differs(0)
        if source.is_float and element.is_float:
            return self._resize(arith.ExtFOp, arith.TruncFOp, x, element)
        if source.is_float:
            op = arith.FPToSIOp if element.is_signed else arith.FPToUIOp
            return self._insert(op(x.value, element.type), element)  # pyright: ignore
        if element.is_float:
            op = arith.SIToFPOp if source.is_signed else arith.UIToFPOp
            return self._insert(op(x.value, element.type), element)  # pyright: ignore
        if source.bits == element.bits:
            return Number(self, x.value, element)
        wider = arith.ExtSIOp if source.is_signed else arith.ExtUIOp
        return self._resize(wider, arith.TruncIOp, x, element)

    def reinterpret(self, x: Number, element: Element) -> Number:
        """Reinterprets the bits of a number as another type of the same width."""
        if x.element.type == element.type:
            return Number(self, x.value, element)
        return self._insert(arith.BitcastOp(x.value, element.type), element)  # pyright: ignore

    def _resize(
        self, wider: type[Operation], narrower: type[Operation], x: Number, element: Element
    ) -> Number:
        op = wider if element.bits > x.element.bits else narrower
        return self._insert(op(x.value, element.type), element)  # pyright: ignore

    def _insert(self, op: Operation, element: Element) -> Number:
        self.builder.insert(op)
        return Number(self, op.results[0], element)
