"""Comparisons and logic (SPIR-V 3.42.15): a Boolean for each component, and selection by one."""

from __future__ import annotations

import operator
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import VectorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Commutative, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import (
    BinaryPredicate,
    UnaryOperation,
    UnaryPredicate,
    Value,
    component_count,
    is_bool,
    is_ieee_float,
    is_integer,
)
from xdsl_spirv.dialects.spirv.folding import (
    Compute,
    Foldable,
    IntegerFoldable,
    components_of,
)
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType


class IntegerComparison(BinaryPredicate, IntegerFoldable, ABC):
    """
    Compares integers of one width and any signedness; S and U in the name say how bits are read.
    """

    def verify_(self) -> None:
        self.check_types(is_integer, "integer")


class FloatComparison(BinaryPredicate, ABC):
    """Compares IEEE floats; Ord is false and Unord true where an operand is a NaN."""

    def verify_(self) -> None:
        rules.bf_09_no_arithmetic([self.operand_1.type])
        self.check_types(is_ieee_float, "floating-point")


class FloatClassification(UnaryPredicate, ABC):
    """Classifies a float."""

    FIELDS: ClassVar[Mapping[str, str]] = {"x": "operand"}

    def verify_(self) -> None:
        rules.bf_09_no_arithmetic([self.operand.type])
        self.check_types(is_ieee_float, "floating-point")


class BooleanBinary(BinaryPredicate, IntegerFoldable, ABC):
    """Combines two Booleans."""

    def verify_(self) -> None:
        self.check_types(is_bool, "Boolean")


@irdl_op_definition
class IEqualOp(IntegerComparison):
    """Whether the bits are equal."""

    name = "spirv.IEqual"
    COMPUTE: ClassVar[Compute] = operator.eq
    traits = traits_def(Commutative())


@irdl_op_definition
class INotEqualOp(IntegerComparison):
    """Whether the bits differ."""

    name = "spirv.INotEqual"
    COMPUTE: ClassVar[Compute] = operator.ne
    traits = traits_def(Commutative())


@irdl_op_definition
class UGreaterThanOp(IntegerComparison):
    """Unsigned >."""

    name = "spirv.UGreaterThan"
    COMPUTE: ClassVar[Compute] = operator.gt


@irdl_op_definition
class SGreaterThanOp(IntegerComparison):
    """Signed >."""

    name = "spirv.SGreaterThan"
    SIGNED: ClassVar[bool] = True
    COMPUTE: ClassVar[Compute] = operator.gt


@irdl_op_definition
class UGreaterThanEqualOp(IntegerComparison):
    """Unsigned >=."""

    name = "spirv.UGreaterThanEqual"
    COMPUTE: ClassVar[Compute] = operator.ge


@irdl_op_definition
class SGreaterThanEqualOp(IntegerComparison):
    """Signed >=."""

    name = "spirv.SGreaterThanEqual"
    SIGNED: ClassVar[bool] = True
    COMPUTE: ClassVar[Compute] = operator.ge


@irdl_op_definition
class ULessThanOp(IntegerComparison):
    """Unsigned <."""

    name = "spirv.ULessThan"
    COMPUTE: ClassVar[Compute] = operator.lt


@irdl_op_definition
class SLessThanOp(IntegerComparison):
    """Signed <."""

    name = "spirv.SLessThan"
    SIGNED: ClassVar[bool] = True
    COMPUTE: ClassVar[Compute] = operator.lt


@irdl_op_definition
class ULessThanEqualOp(IntegerComparison):
    """Unsigned <=."""

    name = "spirv.ULessThanEqual"
    COMPUTE: ClassVar[Compute] = operator.le


@irdl_op_definition
class SLessThanEqualOp(IntegerComparison):
    """Signed <=."""

    name = "spirv.SLessThanEqual"
    SIGNED: ClassVar[bool] = True
    COMPUTE: ClassVar[Compute] = operator.le


@irdl_op_definition
class FOrdEqualOp(FloatComparison):
    """Ordered ==."""

    name = "spirv.FOrdEqual"
    traits = traits_def(Commutative())


@irdl_op_definition
class FOrdNotEqualOp(FloatComparison):
    """Ordered !=."""

    name = "spirv.FOrdNotEqual"
    traits = traits_def(Commutative())


@irdl_op_definition
class FOrdLessThanOp(FloatComparison):
    """Ordered <."""

    name = "spirv.FOrdLessThan"


@irdl_op_definition
class FOrdGreaterThanOp(FloatComparison):
    """Ordered >."""

    name = "spirv.FOrdGreaterThan"


@irdl_op_definition
class FOrdLessThanEqualOp(FloatComparison):
    """Ordered <=."""

    name = "spirv.FOrdLessThanEqual"


@irdl_op_definition
class FOrdGreaterThanEqualOp(FloatComparison):
    """Ordered >=."""

    name = "spirv.FOrdGreaterThanEqual"


@irdl_op_definition
class FUnordEqualOp(FloatComparison):
    """Unordered or ==."""

    name = "spirv.FUnordEqual"
    traits = traits_def(Commutative())


@irdl_op_definition
class FUnordNotEqualOp(FloatComparison):
    """Unordered or !=."""

    name = "spirv.FUnordNotEqual"
    traits = traits_def(Commutative())


@irdl_op_definition
class FUnordLessThanOp(FloatComparison):
    """Unordered or <."""

    name = "spirv.FUnordLessThan"


@irdl_op_definition
class FUnordGreaterThanOp(FloatComparison):
    """Unordered or >."""

    name = "spirv.FUnordGreaterThan"


@irdl_op_definition
class FUnordLessThanEqualOp(FloatComparison):
    """Unordered or <=."""

    name = "spirv.FUnordLessThanEqual"


@irdl_op_definition
class FUnordGreaterThanEqualOp(FloatComparison):
    """Unordered or >=."""

    name = "spirv.FUnordGreaterThanEqual"


@irdl_op_definition
class OrderedOp(FloatComparison):
    """Neither operand is a NaN."""

    name = "spirv.Ordered"
    FIELDS: ClassVar[Mapping[str, str]] = {"x": "operand_1", "y": "operand_2"}
    traits = traits_def(Commutative())


@irdl_op_definition
class UnorderedOp(FloatComparison):
    """Either operand is a NaN."""

    name = "spirv.Unordered"
    FIELDS: ClassVar[Mapping[str, str]] = {"x": "operand_1", "y": "operand_2"}
    traits = traits_def(Commutative())


@irdl_op_definition
class IsNanOp(FloatClassification):
    """Whether the float is a NaN."""

    name = "spirv.IsNan"


@irdl_op_definition
class IsInfOp(FloatClassification):
    """Whether the float is an infinity."""

    name = "spirv.IsInf"


@irdl_op_definition
class IsFiniteOp(FloatClassification):
    """Neither a NaN nor an infinity; needs Kernel."""

    name = "spirv.IsFinite"


@irdl_op_definition
class IsNormalOp(FloatClassification):
    """A normal number; needs Kernel."""

    name = "spirv.IsNormal"


@irdl_op_definition
class SignBitSetOp(FloatClassification):
    """The sign bit is set; needs Kernel."""

    name = "spirv.SignBitSet"


@irdl_op_definition
class LogicalEqualOp(BooleanBinary):
    """Whether two Booleans are equal."""

    name = "spirv.LogicalEqual"
    COMPUTE: ClassVar[Compute] = operator.eq
    NEUTRAL: ClassVar[int | None] = 1
    traits = traits_def(Commutative())


@irdl_op_definition
class LogicalNotEqualOp(BooleanBinary):
    """Whether two Booleans differ."""

    name = "spirv.LogicalNotEqual"
    COMPUTE: ClassVar[Compute] = operator.ne
    NEUTRAL: ClassVar[int | None] = 0
    traits = traits_def(Commutative())


@irdl_op_definition
class LogicalOrOp(BooleanBinary):
    """Whether any of two Booleans is true."""

    name = "spirv.LogicalOr"
    COMPUTE: ClassVar[Compute] = operator.or_
    NEUTRAL: ClassVar[int | None] = 0
    ABSORBING: ClassVar[int | None] = 1
    traits = traits_def(Commutative())


@irdl_op_definition
class LogicalAndOp(BooleanBinary):
    """Whether both Booleans are true."""

    name = "spirv.LogicalAnd"
    COMPUTE: ClassVar[Compute] = operator.and_
    NEUTRAL: ClassVar[int | None] = 1
    ABSORBING: ClassVar[int | None] = 0
    traits = traits_def(Commutative())


@irdl_op_definition
class LogicalNotOp(UnaryOperation, IntegerFoldable):
    """The Boolean's negation."""

    name = "spirv.LogicalNot"
    COMPUTE: ClassVar[Compute] = operator.not_

    def verify_(self) -> None:
        type_ = self.operand.type
        if not is_bool(rules.element_of(type_)) or isinstance(type_, CooperativeMatrixType):
            raise VerifyException(f"{self.name} takes Boolean scalars or vectors, not {type_}")


class BooleanReduction(SPIRVOp, ABC):
    """A vector of Booleans to one: `spirv.Any %v : vector<4xi1>`."""

    vector = operand_def(VectorType)
    result = result_def(i1)
    traits = traits_def(Pure())
    assembly_format = "$vector attr-dict `:` type($vector)"

    def __init__(self, vector: Value):
        super().__init__(operands=[vector], result_types=[i1])

    def verify_(self) -> None:
        if not is_bool(rules.element_of(self.vector.type)):
            raise VerifyException(f"{self.name} takes a vector of i1, not {self.vector.type}")


@irdl_op_definition
class AnyOp(BooleanReduction):
    """Whether any component is true."""

    name = "spirv.Any"


@irdl_op_definition
class AllOp(BooleanReduction):
    """Whether every component is true."""

    name = "spirv.All"


@irdl_op_definition
class SelectOp(Foldable):
    """
    One object or the other, by a Boolean or component by component by a vector of Booleans.

    `spirv.Select %condition, %object_1, %object_2 : i1, f32`. Composites other than vectors take a
    scalar condition (SPIR-V 1.4).
    """

    name = "spirv.Select"
    T: ClassVar = VarConstraint("T", AnyAttr())
    condition = operand_def()
    object_1 = operand_def(T)
    object_2 = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` type($condition) `,` type($result)"

    def __init__(self, condition: Value, object_1: Value, object_2: Value):
        super().__init__(
            operands=[condition, object_1, object_2],
            result_types=[SSAValue.get(object_1).type],
        )

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
                f"{self.name}: the condition is i1 or a vector of it, not {condition}"
            )
        if isinstance(condition, VectorType) and component_count(condition) != (
            component_count(type_) if isinstance(type_, VectorType) else 0
        ):
            raise VerifyException(
                f"{self.name}: a condition of type {condition} selects components of a vector of "
                f"that length, not of {type_}"
            )
