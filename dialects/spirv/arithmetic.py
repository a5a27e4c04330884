"""
Arithmetic (SPIR-V 3.42.13): integer, floating-point, and products of vectors and matrices.

Elementwise operations also accept cooperative matrices (CM-26).
"""

from __future__ import annotations

import operator
from abc import ABC
from collections.abc import Iterable
from typing import ClassVar

from xdsl.dialects.builtin import BFloat16Type, VectorType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import AnyAttr, VarConstraint, operand_def, result_def, traits_def
from xdsl.traits import Commutative, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import (
    BinaryOperation,
    PairAndMembers,
    UnaryOperation,
    check_arithmetic,
    is_float,
    is_integer,
    require,
)
from xdsl_spirv.dialects.spirv.enums import Capability
from xdsl_spirv.dialects.spirv.folding import Compute, IntegerFoldable, divide
from xdsl_spirv.dialects.spirv.signedness import IntegerBinary, IntegerUnary
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType, MatrixType, StructType


class BinaryArithmetic(BinaryOperation, ABC):
    """Elementwise arithmetic. `FLOATING` and `MATRICES` determine the allowed operand types."""

    FLOATING: ClassVar[bool]
    MATRICES: ClassVar[bool] = False

    def verify_(self) -> None:
        types = (self.operand_1.type, self.operand_2.type)
        check_arithmetic(self, types, floating=self.FLOATING, matrices=self.MATRICES)


class IntegerArithmetic(IntegerBinary, IntegerFoldable, ABC):
    """Arithmetic modulo 2^width on integers of any signedness."""


class UnsignedArithmetic(BinaryArithmetic, IntegerFoldable, ABC):
    """Arithmetic on integers of one type, which are read as unsigned."""

    FLOATING: ClassVar[bool] = False


class FloatArithmetic(BinaryArithmetic, ABC):
    """Arithmetic on IEEE 754 floats."""

    FLOATING: ClassVar[bool] = True


class IAddOp(IntegerArithmetic, compute=operator.add, neutral=0, matrices=True, commutative=True):
    """Integer addition modulo 2^width."""


class ISubOp(IntegerArithmetic, compute=operator.sub, neutral=0, matrices=True):
    """Integer subtraction modulo 2^width."""


class IMulOp(IntegerArithmetic):
    """Integer multiplication modulo 2^width."""

    COMPUTE: ClassVar[Compute] = operator.mul
    NEUTRAL: ClassVar[int | None] = 1
    ABSORBING: ClassVar[int | None] = 0
    MATRICES: ClassVar[bool] = True
    traits = traits_def(Commutative())


# fmt: off
class SDivOp(IntegerArithmetic, signed=True, compute=divide, neutral=1, matrices=True):
    """Signed division, rounded toward zero."""
class UDivOp(UnsignedArithmetic, compute=operator.floordiv, neutral=1, matrices=True):
    """Unsigned division."""
class SRemOp(IntegerArithmetic, signed=True, compute=lambda a, b: a - b * divide(a, b)):
    """Signed remainder with the sign of the first operand."""
class SModOp(IntegerArithmetic, signed=True, compute=operator.mod):
    """Signed remainder with the sign of the second operand."""
class UModOp(UnsignedArithmetic, compute=operator.mod): """Unsigned remainder."""
class FAddOp(FloatArithmetic, matrices=True, commutative=True): """Floating-point addition."""
class FSubOp(FloatArithmetic, matrices=True): """Floating-point subtraction."""
class FMulOp(FloatArithmetic, matrices=True, commutative=True): """Floating-point multiplication."""
class FDivOp(FloatArithmetic, matrices=True): """Floating-point division."""
class FRemOp(FloatArithmetic): """Floating-point remainder with the sign of the first operand."""
class FModOp(FloatArithmetic): """Floating-point remainder with the sign of the second operand."""
# fmt: on


class SNegateOp(IntegerUnary, IntegerFoldable):
    """Two's complement negation of integers, or of cooperative matrices."""

    SIGNED: ClassVar[bool] = True
    COMPUTE: ClassVar[Compute] = operator.neg
    MATRICES: ClassVar[bool] = True
    assembly_format = "$operand attr-dict `:` custom<OneOrEachType>(type(operands), type($result))"


class FNegateOp(UnaryOperation):
    """Inverts the sign bit of floats, or of the components of cooperative matrices."""

    assembly_format = "$operand attr-dict `:` type($result)"

    def verify_(self) -> None:
        check_arithmetic(self, [self.operand.type], floating=True, matrices=True)


class ExtendedArithmetic(SPIRVOp, ABC, result=lambda t: StructType([t, t])):
    """Arithmetic with both halves of the result: `spirv.X %a, %b : !spirv.struct<(low, high)>`."""

    operand_1 = operand_def()
    operand_2 = operand_def()
    result = result_def(StructType)
    traits = traits_def(Pure())
    custom_directives = (PairAndMembers,)
    assembly_format = "operands attr-dict `:` custom<PairAndMembers>(type($result), type(operands))"

    def verify_(self) -> None:
        require(self, [o.type for o in self.operands], is_integer, "integer")
        type_, members = self.operand_1.type, self.result.type.member_types
        if [self.operand_2.type, *members] != [type_] * 3:
            raise VerifyException(
                f"{self.name} must have the same type for operands and members of the result, "
                f"not {type_}, {self.operand_2.type} and {self.result.type}"
            )


# fmt: off
class IAddCarryOp(ExtendedArithmetic): """Sum and carry, unsigned."""
class ISubBorrowOp(ExtendedArithmetic): """Difference and borrow, unsigned."""
class SMulExtendedOp(ExtendedArithmetic): """Low and high half of a signed product."""
class UMulExtendedOp(ExtendedArithmetic): """Low and high half of an unsigned product."""
# fmt: on


def _float_vector(op: Operation, type_: Attribute) -> VectorType:
    if not isinstance(type_, VectorType) or not is_float(type_.element_type):
        raise VerifyException(f"{op.name} takes a vector of floats, not {type_}")
    return type_


def _matrix(op: Operation, type_: Attribute) -> MatrixType:
    if not isinstance(type_, MatrixType):
        raise VerifyException(f"{op.name} takes a matrix, not {type_}")
    return type_


def _expect(op: Operation, what: str, expected: Attribute, actual: Attribute) -> None:
    if expected != actual:
        raise VerifyException(f"{op.name}: the {what} must be {expected}, not {actual}")


class VectorTimesScalarOp(SPIRVOp, result="vector"):
    """A vector times a scalar: `spirv.VectorTimesScalar %v, %s : (vector<4xf32>, f32) -> ...`."""

    vector = operand_def()
    scalar = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` `(` type(operands) `)` `->` type($result)"

    def verify_(self) -> None:
        rules.bf_09_no_arithmetic([self.vector.type])
        vector = _float_vector(self, self.vector.type)
        _expect(self, "scalar", vector.element_type, self.scalar.type)
        _expect(self, "result", vector, self.result.type)


class MatrixTimesScalarOp(SPIRVOp):
    """A matrix, or a cooperative matrix (CM-26), times a scalar of its component type."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    matrix = operand_def(T)
    scalar = operand_def()
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` type($matrix) `,` type($scalar)"

    def verify_(self) -> None:
        type_ = self.matrix.type
        rules.bf_09_no_arithmetic([type_])
        if not isinstance(type_, CooperativeMatrixType):
            _matrix(self, type_)
        _expect(self, "scalar", rules.element_of(type_), self.scalar.type)


class VectorTimesMatrixOp(SPIRVOp):
    """A row vector times a matrix."""

    vector = operand_def()
    matrix = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` type($vector) `,` type($matrix) `->` type($result)"

    def verify_(self) -> None:
        matrix = _matrix(self, self.matrix.type)
        _expect(self, "vector", matrix.column_type, self.vector.type)
        element = matrix.column_type.element_type
        _expect(self, "result", VectorType(element, [matrix.columns.data]), self.result.type)


class MatrixTimesVectorOp(SPIRVOp):
    """A matrix times a column vector."""

    matrix = operand_def()
    vector = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` type($matrix) `,` type($vector) `->` type($result)"

    def verify_(self) -> None:
        matrix = _matrix(self, self.matrix.type)
        element = matrix.column_type.element_type
        _expect(self, "vector", VectorType(element, [matrix.columns.data]), self.vector.type)
        _expect(self, "result", matrix.column_type, self.result.type)


class MatrixTimesMatrixOp(SPIRVOp):
    """The product of two matrices."""

    left_matrix = operand_def()
    right_matrix = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "operands attr-dict `:` type($left_matrix) `,` type($right_matrix) `->` type($result)"
    )

    def verify_(self) -> None:
        left = _matrix(self, self.left_matrix.type)
        right = _matrix(self, self.right_matrix.type)
        element = left.column_type.element_type
        inner = VectorType(element, [left.columns.data])
        _expect(self, "column of the right matrix", inner, right.column_type)
        wanted = MatrixType(right.columns.data, left.column_type)
        _expect(self, "result", wanted, self.result.type)


class OuterProductOp(SPIRVOp):
    """A column vector times a row vector."""

    vector_1 = operand_def()
    vector_2 = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "operands attr-dict `:` type($vector_1) `,` type($vector_2) `->` type($result)"
    )

    def verify_(self) -> None:
        column = _float_vector(self, self.vector_1.type)
        row = _float_vector(self, self.vector_2.type)
        _expect(self, "result", MatrixType(row.get_shape()[0], column), self.result.type)


class TransposeOp(SPIRVOp):
    """The transposed matrix."""

    matrix = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` type($matrix) `->` type($result)"

    def verify_(self) -> None:
        matrix = _matrix(self, self.matrix.type)
        row = VectorType(matrix.column_type.element_type, [matrix.columns.data])
        wanted = MatrixType(matrix.column_type.get_shape()[0], row)
        _expect(self, "result", wanted, self.result.type)


class DotOp(SPIRVOp, result=rules.element_of):
    """The dot product of two float vectors, including bfloat16 vectors (BF-02, BF-08)."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    vector_1 = operand_def(T)
    vector_2 = operand_def(T)
    result = result_def()
    traits = traits_def(Commutative(), Pure())
    assembly_format = "operands attr-dict `:` type($vector_1) `->` type($result)"

    def verify_(self) -> None:
        vector = _float_vector(self, self.vector_1.type)
        _expect(self, "result", vector.element_type, self.result.type)

    def capabilities(self) -> Iterable[tuple[Capability, str]]:
        """
        Returns the capability that a bfloat16 product needs (BF-02). Other products need none.
        """
        if isinstance(self.result.type, BFloat16Type):
            yield Capability.BFloat16DotProductKHR, f"{self.name} on bf16"
