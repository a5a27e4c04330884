"""
GLSL.std.450: elementwise functions whose operands and result have the same type.

The interpolation functions, which only fragment shaders can use, are omitted.
"""

from __future__ import annotations

from abc import ABC

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import (
    BinaryOperation,
    TernaryOperation,
    UnaryOperation,
    is_ieee_float,
    require,
)
from xdsl_spirv.dialects.spirv.signedness import IntegerBinary, IntegerTernary, IntegerUnary


def check_floats(op: Operation) -> None:
    """Raises `VerifyException` if an operand is not an IEEE 754 float."""
    types = [o.type for o in op.operands]
    rules.bf_09_no_arithmetic(types)
    require(op, types, is_ieee_float, "floating-point")


class GLFloats(SPIRVOp, ABC):
    """A function of floats."""

    def verify_(self) -> None:
        check_floats(self)


class GLUnary(GLFloats, UnaryOperation, ABC):
    """An elementwise function of one float."""


class GLBinary(GLFloats, BinaryOperation, ABC):
    """An elementwise function of two floats."""


class GLTernary(GLFloats, TernaryOperation, ABC):
    """An elementwise function of three floats."""


# fmt: off
class GLRoundOp(GLUnary): """Rounds to the nearest integer, halves in either direction."""
class GLRoundEvenOp(GLUnary): """Rounds to the nearest integer, halves to even."""
class GLTruncOp(GLUnary): """Rounds toward zero."""
class GLFAbsOp(GLUnary): """Absolute value."""
class GLFSignOp(GLUnary): """Sign: -1, 0 or 1."""
class GLFloorOp(GLUnary): """Rounds toward minus infinity."""
class GLCeilOp(GLUnary): """Rounds toward infinity."""
class GLFractOp(GLUnary): """Fractional part: x - floor(x)."""
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
class GLExpOp(GLUnary): """e to the power x."""
class GLLogOp(GLUnary): """Natural logarithm."""
class GLExp2Op(GLUnary): """2 to the power x."""
class GLLog2Op(GLUnary): """Logarithm to base 2."""
class GLSqrtOp(GLUnary): """Square root."""
class GLInverseSqrtOp(GLUnary): """1 / sqrt(x)."""
class GLNormalizeOp(GLUnary): """Scales a vector to length 1."""
class GLSAbsOp(IntegerUnary): """Absolute value of a signed integer."""
class GLSSignOp(IntegerUnary): """Sign of a signed integer: -1, 0 or 1."""
class GLAtanOp(GLUnary): """Arc tangent."""
class GLRadiansOp(GLUnary): """Converts degrees to radians."""
class GLDegreesOp(GLUnary): """Converts radians to degrees."""
class GLFindILsbOp(IntegerUnary):
    """Index of the lowest set bit, or -1 for 0."""
class GLFindSMsbOp(IntegerUnary):
    """Index of the highest bit that differs from the sign bit, or -1 if there is none."""
class GLFindUMsbOp(IntegerUnary):
    """Index of the highest set bit, or -1 for 0. Operands must have 32 bits."""
class GLFMinOp(GLBinary): """Minimum. Unspecified for a NaN."""
class GLFMaxOp(GLBinary): """Maximum. Unspecified for a NaN."""
class GLNMinOp(GLBinary): """Minimum, ignoring a NaN."""
class GLNMaxOp(GLBinary): """Maximum, ignoring a NaN."""
class GLPowOp(GLBinary): """x to the power y."""
class GLCrossOp(GLBinary): """Cross product of vectors with 3 components."""
class GLAtan2Op(GLBinary): """The angle of (x, y)."""
class GLStepOp(GLBinary):
    """0 if x is less than the edge, else 1."""
class GLReflectOp(GLBinary):
    """Reflects an incident vector at a surface."""
class GLUMinOp(IntegerBinary): """Minimum of unsigned integers."""
class GLSMinOp(IntegerBinary): """Minimum of signed integers."""
class GLUMaxOp(IntegerBinary): """Maximum of unsigned integers."""
class GLSMaxOp(IntegerBinary): """Maximum of signed integers."""
class GLFClampOp(GLTernary): """Clamps floats."""
class GLNClampOp(GLTernary): """Clamps floats. A NaN gives the minimum."""
class GLUClampOp(IntegerTernary): """Clamps unsigned integers."""
class GLSClampOp(IntegerTernary): """Clamps signed integers."""
class GLFmaOp(GLTernary):
    """Computes a * b + c. With NoContraction, rounds only once."""
class GLSmoothStepOp(GLTernary, fields={"x": "z"}):
    """Hermite interpolation from 0 to 1 between two edges."""
class GLFaceForwardOp(GLTernary):
    """N if dot(Nref, I) is negative, else -N."""
# fmt: on
