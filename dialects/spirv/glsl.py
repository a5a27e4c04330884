"""
GLSL.std.450: functions of one type throughout, component by component.

Left out: interpolation, which is for fragment shaders only.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.constraints import (
    BinaryOperation,
    TernaryOperation,
    UnaryOperation,
    is_ieee_float,
    require,
)
from xdsl_spirv.dialects.spirv.signedness import IntegerBinary, IntegerTernary, IntegerUnary


def check_floats(op: Operation) -> None:
    """Refuse operands that are not IEEE floats."""
    types = [o.type for o in op.operands]
    rules.bf_09_no_arithmetic(types)
    require(op, types, is_ieee_float, "floating-point")


class GLUnary(UnaryOperation, ABC):
    """A function of one float, component by component."""

    FIELDS: ClassVar[Mapping[str, str]] = {"x": "operand"}

    def verify_(self) -> None:
        check_floats(self)


class GLBinary(BinaryOperation, ABC):
    """A function of two floats, component by component."""

    FIELDS: ClassVar[Mapping[str, str]] = {"x": "operand_1", "y": "operand_2"}

    def verify_(self) -> None:
        check_floats(self)


class GLTernary(TernaryOperation, ABC):
    """A function of three floats, component by component."""

    def verify_(self) -> None:
        check_floats(self)


class GLClamp(GLTernary, ABC):
    """The first value, kept between the second and the third."""

    FIELDS: ClassVar[Mapping[str, str]] = {"min_val": "y", "max_val": "z"}


class GLIntegerUnary(IntegerUnary, ABC):
    """A function of one integer, component by component."""

    FIELDS: ClassVar[Mapping[str, str]] = {"x": "operand"}


class GLIntegerBinary(IntegerBinary, ABC):
    """A function of two integers, component by component."""

    FIELDS: ClassVar[Mapping[str, str]] = {"x": "operand_1", "y": "operand_2"}


class GLIntegerClamp(IntegerTernary, ABC):
    """The first integer, kept between the second and the third."""

    FIELDS: ClassVar[Mapping[str, str]] = {"min_val": "y", "max_val": "z"}


# fmt: off
class GLRoundOp(GLUnary): """Nearest whole number; halves either way."""
class GLRoundEvenOp(GLUnary): """Nearest whole number; halves to even."""
class GLTruncOp(GLUnary): """Rounds toward zero."""
class GLFAbsOp(GLUnary): """Absolute value."""
class GLFSignOp(GLUnary): """The sign: -1, 0 or 1."""
class GLFloorOp(GLUnary): """Rounds toward minus infinity."""
class GLCeilOp(GLUnary): """Rounds toward infinity."""
class GLFractOp(GLUnary): """The fraction: x - floor(x)."""
class GLSinOp(GLUnary): """Sine of radians."""
class GLCosOp(GLUnary): """Cosine of radians."""
class GLTanOp(GLUnary): """Tangent of radians."""
class GLAsinOp(GLUnary): """Arc sine."""
class GLAcosOp(GLUnary): """Arc cosine."""
class GLSinhOp(GLUnary): """Hyperbolic sine."""
class GLCoshOp(GLUnary): """Hyperbolic cosine."""
class GLTanhOp(GLUnary): """Hyperbolic tangent."""
class GLAsinhOp(GLUnary): """Inverse hyperbolic sine."""
class GLAcoshOp(GLUnary): """Inverse hyperbolic cosine."""
class GLAtanhOp(GLUnary): """Inverse hyperbolic tangent."""
class GLExpOp(GLUnary): """e to the x."""
class GLLogOp(GLUnary): """Natural logarithm."""
class GLExp2Op(GLUnary): """2 to the x."""
class GLLog2Op(GLUnary): """Logarithm to base 2."""
class GLSqrtOp(GLUnary): """Square root."""
class GLInverseSqrtOp(GLUnary): """1 / sqrt(x)."""
class GLNormalizeOp(GLUnary): """A vector of the same direction and length 1."""
class GLSAbsOp(GLIntegerUnary): """Absolute value of a signed integer."""
class GLSSignOp(GLIntegerUnary): """-1, 0 or 1, of a signed integer."""
class GLAtanOp(GLUnary, fields={"y_over_x": "operand"}): """Arc tangent."""
class GLRadiansOp(GLUnary, fields={"degrees": "operand"}): """Degrees to radians."""
class GLDegreesOp(GLUnary, fields={"radians": "operand"}): """Radians to degrees."""
class GLFindILsbOp(GLIntegerUnary, fields={"value": "operand"}):
    """The number of the lowest bit set; -1 if none."""
class GLFindSMsbOp(GLIntegerUnary, fields={"value": "operand"}):
    """Position of the highest bit unlike the sign bit; -1 if none; 32-bit only."""
class GLFindUMsbOp(GLIntegerUnary, fields={"value": "operand"}):
    """The number of the highest bit set; -1 if none; 32-bit only."""
class GLFMinOp(GLBinary): """The smaller; either one if one is a NaN."""
class GLFMaxOp(GLBinary): """The larger; either one if one is a NaN."""
class GLNMinOp(GLBinary): """The smaller; the number if one is a NaN."""
class GLNMaxOp(GLBinary): """The larger; the number if one is a NaN."""
class GLPowOp(GLBinary): """x to the y."""
class GLCrossOp(GLBinary): """The cross product of vectors of three."""
class GLAtan2Op(GLBinary, fields={"y": "operand_1", "x": "operand_2"}): """The angle of (x, y)."""
class GLStepOp(GLBinary, fields={"edge": "operand_1", "x": "operand_2"}):
    """0 below the edge, 1 from it on."""
class GLReflectOp(GLBinary, fields={"i": "operand_1", "n": "operand_2"}):
    """An incident vector's reflection."""
class GLUMinOp(GLIntegerBinary): """The smaller unsigned integer."""
class GLSMinOp(GLIntegerBinary): """The smaller signed integer."""
class GLUMaxOp(GLIntegerBinary): """The larger unsigned integer."""
class GLSMaxOp(GLIntegerBinary): """The larger signed integer."""
class GLFClampOp(GLClamp): """Clamps floats."""
class GLNClampOp(GLClamp): """Clamps floats; a NaN gives the minimum."""
class GLUClampOp(GLIntegerClamp): """Clamps unsigned integers."""
class GLSClampOp(GLIntegerClamp): """Clamps signed integers."""
class GLFmaOp(GLTernary, fields={"a": "x", "b": "y", "c": "z"}):
    """a * b + c; rounded once only under NoContraction."""
class GLSmoothStepOp(GLTernary, fields={"edge0": "x", "edge1": "y", "x": "z"}):
    """A Hermite step between two edges."""
class GLFaceForwardOp(GLTernary, fields={"n": "x", "i": "y", "nref": "z"}):
    """N, turned toward I: negated where Nref and I point the same way."""
# fmt: on
