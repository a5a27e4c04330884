"""
Writes `spirv` instructions on scalars or vectors of one type.

bfloat16 has no arithmetic: operands are converted to binary32, and results back.
"""

from __future__ import annotations

from typing import Protocol

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerType,
    VectorType,
    f32,
    i1,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects.spirv import arithmetic, conversion, logic


class Code(Protocol):
    """Interface of the object that receives instructions, such as a block that is being built."""

    def add(self, op: Operation) -> SSAValue:
        """Appends an operation and returns its result."""
        ...

    def number(self, value: float, type: Attribute) -> SSAValue:
        """
        Returns a constant. In a vector, every component has the value. Equal constants are shared.
        """
        ...


def element_of(type: Attribute) -> Attribute:
    """Returns the type of a vector's components. Returns a scalar type unchanged."""
    return type.element_type if isinstance(type, VectorType) else type


def like(type: Attribute, element: Attribute) -> Attribute:
    """
    Returns `element`, or a vector of it with as many components as the vector type `type` has.
    """
    return VectorType(element, type.get_shape()) if isinstance(type, VectorType) else element


def width_of(type: Attribute) -> int:
    element = element_of(type)
    assert isinstance(element, IntegerType | Float16Type | Float32Type) or hasattr(
        element, "bitwidth"
    )
    return element.width.data if isinstance(element, IntegerType) else element.bitwidth  # pyright: ignore


def is_small(type: Attribute) -> bool:
    """True for f16 and bf16. Functions of these types are computed in binary32 and rounded."""
    return isinstance(element_of(type), Float16Type | BFloat16Type)


class Values:
    """
    Writes instructions on values of the type `type` into `code`.

    If the computation is widened to `type`, `stated_width` is the width in bits of the operation's
    own type.
    """

    def __init__(self, code: Code, type: Attribute, stated_width: int | None = None):
        self.code, self.type = code, type
        self._stated_width = stated_width

    @property
    def stated_width(self) -> int:
        return self._stated_width or width_of(self.type)

    def as_type(self, element: Attribute) -> Values:
        return Values(self.code, like(self.type, element))

    def number(self, value: float) -> SSAValue:
        """Returns a constant with this value in every component."""
        return self.code.number(value, self.type)

    def op(self, kind: type[Operation], *operands: SSAValue) -> SSAValue:
        """Adds an instruction with a result of the type `type`, and returns the result."""
        return self.code.add(kind.create(operands=operands, result_types=[self.type]))

    def test(self, kind: type[Operation], *operands: SSAValue) -> SSAValue:
        """Adds an instruction whose result has a Boolean per component, and returns the result."""
        return self.code.add(kind.create(operands=operands, result_types=[like(self.type, i1)]))

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.op(logic.SelectOp, condition, a, b)

    def either(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.as_type(i1).op(logic.LogicalOrOp, a, b)

    def bits(self, value: SSAValue) -> SSAValue:
        """Returns the bits of a binary32 number as an integer."""
        return self.as_type(i32).op(conversion.BitcastOp, value)

    # Floats

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.op(arithmetic.FAddOp, a, b)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.op(arithmetic.FSubOp, a, b)

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.op(arithmetic.FMulOp, a, b)

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.op(arithmetic.FDivOp, a, b)

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        from xdsl_spirv.dialects.spirv.glsl import GLFmaOp

        return self.op(GLFmaOp, a, b, c)

    def negated(self, a: SSAValue) -> SSAValue:
        return self.op(arithmetic.FNegateOp, a)

    def magnitude(self, a: SSAValue) -> SSAValue:
        from xdsl_spirv.dialects.spirv.glsl import GLFAbsOp

        return self.op(GLFAbsOp, a)

    def less(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.test(logic.FOrdLessThanOp, a, b)

    def is_nan(self, a: SSAValue) -> SSAValue:
        return self.test(logic.IsNanOp, a)

    def polynomial(self, x: SSAValue, coefficients: tuple[float, ...]) -> SSAValue:
        """Computes c0 + x (c1 + x (c2 + ...))."""
        result = self.number(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            result = self.fma(result, x, self.number(coefficient))
        return result

    def with_sign(self, magnitude: SSAValue, sign: SSAValue) -> SSAValue:
        """Returns a nonnegative binary32 number with the sign that another number has."""
        whole = self.as_type(i32)
        from xdsl_spirv.dialects.spirv import bit

        mask = whole.op(bit.BitwiseAndOp, self.bits(sign), whole.number(-(1 << 31)))
        joined = whole.op(bit.BitwiseOrOp, self.bits(magnitude), mask)
        return self.op(conversion.BitcastOp, joined)


def wide(code: Code, value: SSAValue, type: Attribute) -> SSAValue:
    """Converts a float narrower than binary32 to binary32. Returns other floats unchanged."""
    if is_small(type):
        return Values(code, like(type, f32)).op(conversion.FConvertOp, value)
    return value


def narrow(code: Code, value: SSAValue, type: Attribute) -> SSAValue:
    """Rounds a binary32 number to a narrower float type. Returns it unchanged for other types."""
    return Values(code, type).op(conversion.FConvertOp, value) if is_small(type) else value
