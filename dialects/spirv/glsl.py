"""
GLSL.std.450: functions of one type throughout, component by component.

Left out: interpolation, which is for fragment shaders only.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar

from xdsl.ir import Operation
from xdsl.irdl import irdl_op_definition

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.constraints import (
    BinaryOperation,
    TernaryOperation,
    UnaryOperation,
    is_ieee_float,
    require,
)
from xdsl_spirv.dialects.spirv.signedness import (
    IntegerBinary,
    IntegerTernary,
    IntegerUnary,
)


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


@irdl_op_definition
class GLRoundOp(GLUnary):
    """Nearest whole number; halves either way."""

    name = "spirv.GL.Round"


@irdl_op_definition
class GLRoundEvenOp(GLUnary):
    """Nearest whole number; halves to even."""

    name = "spirv.GL.RoundEven"


@irdl_op_definition
class GLTruncOp(GLUnary):
    """Rounds toward zero."""

    name = "spirv.GL.Trunc"


@irdl_op_definition
class GLFAbsOp(GLUnary):
    """Absolute value."""

    name = "spirv.GL.FAbs"


@irdl_op_definition
class GLFSignOp(GLUnary):
    """The sign: -1, 0 or 1."""

    name = "spirv.GL.FSign"


@irdl_op_definition
class GLFloorOp(GLUnary):
    """Rounds toward minus infinity."""

    name = "spirv.GL.Floor"


@irdl_op_definition
class GLCeilOp(GLUnary):
    """Rounds toward infinity."""

    name = "spirv.GL.Ceil"


@irdl_op_definition
class GLFractOp(GLUnary):
    """The fraction: x - floor(x)."""

    name = "spirv.GL.Fract"


@irdl_op_definition
class GLSinOp(GLUnary):
    """Sine of radians."""

    name = "spirv.GL.Sin"


@irdl_op_definition
class GLCosOp(GLUnary):
    """Cosine of radians."""

    name = "spirv.GL.Cos"


@irdl_op_definition
class GLTanOp(GLUnary):
    """Tangent of radians."""

    name = "spirv.GL.Tan"


@irdl_op_definition
class GLAsinOp(GLUnary):
    """Arc sine."""

    name = "spirv.GL.Asin"


@irdl_op_definition
class GLAcosOp(GLUnary):
    """Arc cosine."""

    name = "spirv.GL.Acos"


@irdl_op_definition
class GLSinhOp(GLUnary):
    """Hyperbolic sine."""

    name = "spirv.GL.Sinh"


@irdl_op_definition
class GLCoshOp(GLUnary):
    """Hyperbolic cosine."""

    name = "spirv.GL.Cosh"


@irdl_op_definition
class GLTanhOp(GLUnary):
    """Hyperbolic tangent."""

    name = "spirv.GL.Tanh"


@irdl_op_definition
class GLAsinhOp(GLUnary):
    """Inverse hyperbolic sine."""

    name = "spirv.GL.Asinh"


@irdl_op_definition
class GLAcoshOp(GLUnary):
    """Inverse hyperbolic cosine."""

    name = "spirv.GL.Acosh"


@irdl_op_definition
class GLAtanhOp(GLUnary):
    """Inverse hyperbolic tangent."""

    name = "spirv.GL.Atanh"


@irdl_op_definition
class GLExpOp(GLUnary):
    """e to the x."""

    name = "spirv.GL.Exp"


@irdl_op_definition
class GLLogOp(GLUnary):
    """Natural logarithm."""

    name = "spirv.GL.Log"


@irdl_op_definition
class GLExp2Op(GLUnary):
    """2 to the x."""

    name = "spirv.GL.Exp2"


@irdl_op_definition
class GLLog2Op(GLUnary):
    """Logarithm to base 2."""

    name = "spirv.GL.Log2"


@irdl_op_definition
class GLSqrtOp(GLUnary):
    """Square root."""

    name = "spirv.GL.Sqrt"


@irdl_op_definition
class GLInverseSqrtOp(GLUnary):
    """1 / sqrt(x)."""

    name = "spirv.GL.InverseSqrt"


@irdl_op_definition
class GLNormalizeOp(GLUnary):
    """A vector of the same direction and length 1."""

    name = "spirv.GL.Normalize"


@irdl_op_definition
class GLSAbsOp(GLIntegerUnary):
    """Absolute value of a signed integer."""

    name = "spirv.GL.SAbs"


@irdl_op_definition
class GLSSignOp(GLIntegerUnary):
    """-1, 0 or 1, of a signed integer."""

    name = "spirv.GL.SSign"


@irdl_op_definition
class GLAtanOp(GLUnary):
    """Arc tangent."""

    name = "spirv.GL.Atan"
    FIELDS: ClassVar[Mapping[str, str]] = {"y_over_x": "operand"}


@irdl_op_definition
class GLRadiansOp(GLUnary):
    """Degrees to radians."""

    name = "spirv.GL.Radians"
    FIELDS: ClassVar[Mapping[str, str]] = {"degrees": "operand"}


@irdl_op_definition
class GLDegreesOp(GLUnary):
    """Radians to degrees."""

    name = "spirv.GL.Degrees"
    FIELDS: ClassVar[Mapping[str, str]] = {"radians": "operand"}


@irdl_op_definition
class GLFindILsbOp(GLIntegerUnary):
    """The number of the lowest bit set; -1 if none."""

    name = "spirv.GL.FindILsb"
    FIELDS: ClassVar[Mapping[str, str]] = {"value": "operand"}


@irdl_op_definition
class GLFindSMsbOp(GLIntegerUnary):
    """The highest bit unlike the sign; -1 if none; 32-bit only."""

    name = "spirv.GL.FindSMsb"
    FIELDS: ClassVar[Mapping[str, str]] = {"value": "operand"}


@irdl_op_definition
class GLFindUMsbOp(GLIntegerUnary):
    """The number of the highest bit set; -1 if none; 32-bit only."""

    name = "spirv.GL.FindUMsb"
    FIELDS: ClassVar[Mapping[str, str]] = {"value": "operand"}


@irdl_op_definition
class GLFMinOp(GLBinary):
    """The smaller; either one if one is a NaN."""

    name = "spirv.GL.FMin"


@irdl_op_definition
class GLFMaxOp(GLBinary):
    """The larger; either one if one is a NaN."""

    name = "spirv.GL.FMax"


@irdl_op_definition
class GLNMinOp(GLBinary):
    """The smaller; the number if one is a NaN."""

    name = "spirv.GL.NMin"


@irdl_op_definition
class GLNMaxOp(GLBinary):
    """The larger; the number if one is a NaN."""

    name = "spirv.GL.NMax"


@irdl_op_definition
class GLPowOp(GLBinary):
    """x to the y."""

    name = "spirv.GL.Pow"


@irdl_op_definition
class GLCrossOp(GLBinary):
    """The cross product of vectors of three."""

    name = "spirv.GL.Cross"


@irdl_op_definition
class GLAtan2Op(GLBinary):
    """The angle of (x, y)."""

    name = "spirv.GL.Atan2"
    FIELDS: ClassVar[Mapping[str, str]] = {"y": "operand_1", "x": "operand_2"}


@irdl_op_definition
class GLStepOp(GLBinary):
    """0 below the edge, 1 from it on."""

    name = "spirv.GL.Step"
    FIELDS: ClassVar[Mapping[str, str]] = {"edge": "operand_1", "x": "operand_2"}


@irdl_op_definition
class GLReflectOp(GLBinary):
    """An incident vector's reflection."""

    name = "spirv.GL.Reflect"
    FIELDS: ClassVar[Mapping[str, str]] = {"i": "operand_1", "n": "operand_2"}


@irdl_op_definition
class GLUMinOp(GLIntegerBinary):
    """The smaller unsigned integer."""

    name = "spirv.GL.UMin"


@irdl_op_definition
class GLSMinOp(GLIntegerBinary):
    """The smaller signed integer."""

    name = "spirv.GL.SMin"


@irdl_op_definition
class GLUMaxOp(GLIntegerBinary):
    """The larger unsigned integer."""

    name = "spirv.GL.UMax"


@irdl_op_definition
class GLSMaxOp(GLIntegerBinary):
    """The larger signed integer."""

    name = "spirv.GL.SMax"


@irdl_op_definition
class GLFClampOp(GLClamp):
    """Clamps floats."""

    name = "spirv.GL.FClamp"


@irdl_op_definition
class GLNClampOp(GLClamp):
    """Clamps floats; a NaN gives the minimum."""

    name = "spirv.GL.NClamp"


@irdl_op_definition
class GLUClampOp(GLIntegerClamp):
    """Clamps unsigned integers."""

    name = "spirv.GL.UClamp"


@irdl_op_definition
class GLSClampOp(GLIntegerClamp):
    """Clamps signed integers."""

    name = "spirv.GL.SClamp"


@irdl_op_definition
class GLFmaOp(GLTernary):
    """a * b + c; rounded once only under NoContraction."""

    name = "spirv.GL.Fma"
    FIELDS: ClassVar[Mapping[str, str]] = {"a": "x", "b": "y", "c": "z"}


@irdl_op_definition
class GLSmoothStepOp(GLTernary):
    """A Hermite step between two edges."""

    name = "spirv.GL.SmoothStep"
    FIELDS: ClassVar[Mapping[str, str]] = {"edge0": "x", "edge1": "y", "x": "z"}


@irdl_op_definition
class GLFaceForwardOp(GLTernary):
    """N, turned toward I: negated where Nref and I point the same way."""

    name = "spirv.GL.FaceForward"
    FIELDS: ClassVar[Mapping[str, str]] = {"n": "x", "i": "y", "nref": "z"}
