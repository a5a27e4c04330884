"""Comparisons and logic (SPIR-V 3.42.15) with Boolean results for each component, and OpSelect."""

from __future__ import annotations

import operator
from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import VectorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AnyAttr, VarConstraint, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import (
    BinaryPredicate,
    UnaryOperation,
    UnaryPredicate,
    component_count,
    is_bool,
    is_ieee_float,
    is_integer,
)
from xdsl_spirv.dialects.spirv.folding import Compute, Foldable, IntegerFoldable, components_of
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType


class IntegerComparison(BinaryPredicate, IntegerFoldable, ABC):
    """Compares integers of one width, whose bits are read as signed (S) or unsigned (U)."""

    def verify_(self) -> None:
        self.check_types(is_integer, "integer")


class FloatComparison(BinaryPredicate, ABC):
    """Compares IEEE 754 floats. If an operand is a NaN, Ord is false and Unord is true."""

    def verify_(self) -> None:
        rules.bf_09_no_arithmetic([self.operand_1.type])
        self.check_types(is_ieee_float, "floating-point")


class FloatClassification(UnaryPredicate, ABC):
    """A predicate of a float."""

    def verify_(self) -> None:
        rules.bf_09_no_arithmetic([self.operand.type])
        self.check_types(is_ieee_float, "floating-point")


class BooleanBinary(BinaryPredicate, IntegerFoldable, ABC):
    """A logical operation on two Booleans."""

    def verify_(self) -> None:
        self.check_types(is_bool, "Boolean")


# fmt: off
class IEqualOp(IntegerComparison, compute=operator.eq, commutative=True):
    """True if the bits are equal."""
class INotEqualOp(IntegerComparison, compute=operator.ne, commutative=True):
    """True if the bits differ."""
class UGreaterThanOp(IntegerComparison, compute=operator.gt): """Unsigned >."""
class SGreaterThanOp(IntegerComparison, signed=True, compute=operator.gt): """Signed >."""
class UGreaterThanEqualOp(IntegerComparison, compute=operator.ge): """Unsigned >=."""
class SGreaterThanEqualOp(IntegerComparison, signed=True, compute=operator.ge): """Signed >=."""
class ULessThanOp(IntegerComparison, compute=operator.lt): """Unsigned <."""
class SLessThanOp(IntegerComparison, signed=True, compute=operator.lt): """Signed <."""
class ULessThanEqualOp(IntegerComparison, compute=operator.le): """Unsigned <=."""
class SLessThanEqualOp(IntegerComparison, signed=True, compute=operator.le): """Signed <=."""
class FOrdEqualOp(FloatComparison, commutative=True): """a == b, false for a NaN."""
class FOrdNotEqualOp(FloatComparison, commutative=True): """a != b, false for a NaN."""
class FOrdLessThanOp(FloatComparison): """a < b, false for a NaN."""
class FOrdGreaterThanOp(FloatComparison): """a > b, false for a NaN."""
class FOrdLessThanEqualOp(FloatComparison): """a <= b, false for a NaN."""
class FOrdGreaterThanEqualOp(FloatComparison): """a >= b, false for a NaN."""
class FUnordEqualOp(FloatComparison, commutative=True): """a == b, true for a NaN."""
class FUnordNotEqualOp(FloatComparison, commutative=True): """a != b, true for a NaN."""
class FUnordLessThanOp(FloatComparison): """a < b, true for a NaN."""
class FUnordGreaterThanOp(FloatComparison): """a > b, true for a NaN."""
class FUnordLessThanEqualOp(FloatComparison): """a <= b, true for a NaN."""
class FUnordGreaterThanEqualOp(FloatComparison): """a >= b, true for a NaN."""
class OrderedOp(FloatComparison, commutative=True):
    """True if neither operand is a NaN."""
class UnorderedOp(FloatComparison, commutative=True):
    """True if an operand is a NaN."""
class IsNanOp(FloatClassification): """True for a NaN."""
class IsInfOp(FloatClassification): """True for an infinity."""
class IsFiniteOp(FloatClassification): """True for finite floats. Needs Kernel."""
class IsNormalOp(FloatClassification): """True for normal floats. Needs Kernel."""
class SignBitSetOp(FloatClassification): """True if the sign bit is set. Needs Kernel."""
class LogicalEqualOp(BooleanBinary, compute=operator.eq, neutral=1, commutative=True):
    """True if two Booleans are equal."""
class LogicalNotEqualOp(BooleanBinary, compute=operator.ne, neutral=0, commutative=True):
    """True if two Booleans differ."""
class LogicalOrOp(BooleanBinary, compute=operator.or_, neutral=0, absorbing=1, commutative=True):
    """True if any of two Booleans is true."""
class LogicalAndOp(BooleanBinary, compute=operator.and_, neutral=1, absorbing=0, commutative=True):
    """True if both Booleans are true."""
# fmt: on


class LogicalNotOp(UnaryOperation, IntegerFoldable):
    """Negates Booleans."""

    COMPUTE: ClassVar[Compute] = operator.not_

    def verify_(self) -> None:
        type_ = self.operand.type
        if not is_bool(rules.element_of(type_)) or isinstance(type_, CooperativeMatrixType):
            raise VerifyException(f"{self.name} takes Boolean scalars or vectors, not {type_}")


class BooleanReduction(SPIRVOp, ABC):
    """Combines a vector of Booleans to one Boolean: `spirv.Any %v : vector<4xi1>`."""

    vector = operand_def(VectorType)
    result = result_def(i1)
    traits = traits_def(Pure())
    assembly_format = "$vector attr-dict `:` type($vector)"

    def verify_(self) -> None:
        if not is_bool(rules.element_of(self.vector.type)):
            raise VerifyException(f"{self.name} takes a vector of i1, not {self.vector.type}")


class AnyOp(BooleanReduction):
    """True if any component is true."""


class AllOp(BooleanReduction):
    """True if every component is true."""


class SelectOp(Foldable):
    """
    Selects one of two objects by a Boolean, or each component by a vector of Booleans.

    `spirv.Select %condition, %object_1, %object_2 : i1, f32`. Composites other than vectors need a
    scalar condition (SPIR-V 1.4).
    """

    T: ClassVar = VarConstraint("T", AnyAttr())
    condition = operand_def()
    object_1 = operand_def(T)
    object_2 = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` type($condition) `,` type($result)"

    def evaluate(self, operands: Sequence[Attribute | None]) -> SSAValue | None:
        if self.object_1 is self.object_2:
            return self.object_1
        conditions = {bool(condition.value.data) for condition in components_of(operands[0]) or ()}
        if len(conditions) != 1:
            return None
        return self.object_1 if conditions.pop() else self.object_2

    def verify_(self) -> None:
        condition, type_ = self.condition.type, self.result.type
        if not is_bool(rules.element_of(condition)):
            raise VerifyException(
                f"{self.name}: the condition must be i1 or a vector of i1, not {condition}"
            )
        if isinstance(condition, VectorType) and component_count(condition) != (
            component_count(type_) if isinstance(type_, VectorType) else 0
        ):
            raise VerifyException(
                f"{self.name}: a condition of type {condition} selects components of a vector of "
                f"that length, not of {type_}"
            )
