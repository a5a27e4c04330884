"""Bits (SPIR-V 3.42.14): shifts, bitwise logic, bit fields and counts, on integers."""

from __future__ import annotations

import operator
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
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

from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import (
    UnaryOperation,
    Value,
    component_count,
    is_integer,
    require,
    width_of,
)
from xdsl_spirv.dialects.spirv.folding import Compute, IntegerFoldable, unsigned
from xdsl_spirv.dialects.spirv.signedness import (
    BaseAndFurtherTypes,
    IntegerBinary,
    IntegerUnary,
    check_one_width,
)


class BitwiseBinary(IntegerBinary, IntegerFoldable, ABC):
    """Combines two values bit by bit."""

    traits = traits_def(Commutative())


@irdl_op_definition
class BitwiseAndOp(BitwiseBinary):
    """Bitwise and."""

    name = "spirv.BitwiseAnd"
    COMPUTE: ClassVar[Compute] = operator.and_
    NEUTRAL: ClassVar[int | None] = -1
    ABSORBING: ClassVar[int | None] = 0


@irdl_op_definition
class BitwiseOrOp(BitwiseBinary):
    """Bitwise or."""

    name = "spirv.BitwiseOr"
    COMPUTE: ClassVar[Compute] = operator.or_
    NEUTRAL: ClassVar[int | None] = 0
    ABSORBING: ClassVar[int | None] = -1


@irdl_op_definition
class BitwiseXorOp(BitwiseBinary):
    """Bitwise exclusive or."""

    name = "spirv.BitwiseXor"
    COMPUTE: ClassVar[Compute] = operator.xor
    NEUTRAL: ClassVar[int | None] = 0


@irdl_op_definition
class NotOp(IntegerUnary, IntegerFoldable):
    """Bitwise complement."""

    name = "spirv.Not"
    COMPUTE: ClassVar[Compute] = operator.invert


@irdl_op_definition
class BitReverseOp(UnaryOperation):
    """The bits in reverse order, in the operand's type."""

    name = "spirv.BitReverse"
    FIELDS: ClassVar[Mapping[str, str]] = {"base": "operand"}

    def verify_(self) -> None:
        require(self, [self.operand.type], is_integer, "integer")


@irdl_op_definition
class BitCountOp(IntegerUnary):
    """The number of set bits, in integers of any width."""

    name = "spirv.BitCount"
    FIELDS: ClassVar[Mapping[str, str]] = {"base": "operand"}

    def verify_(self) -> None:
        types = [self.operand.type, self.result.type]
        require(self, types, is_integer, "integer")
        if component_count(types[0]) != component_count(types[1]):
            raise VerifyException(
                f"{self.name} keeps the number of components, not {types[0]} to {types[1]}"
            )


class Shift(IntegerFoldable, ABC):
    """
    `spirv.X %base, %shift : base type, shift type`; undefined from a shift of the width on.

    A result of another signedness than the base's is printed behind: `: i32, i32 -> si32`.
    """

    NEUTRAL: ClassVar[int | None] = 0
    base = operand_def()
    shift = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (BaseAndFurtherTypes,)
    assembly_format = (
        "operands attr-dict `:` custom<BaseAndFurtherTypes>(type(operands), type($result))"
    )

    def __init__(self, base: Value, shift: Value):
        super().__init__(operands=[base, shift], result_types=[SSAValue.get(base).type])

    def component(self, operands: Sequence[IntegerAttr]) -> int | None:
        base, shift = operands
        return super().component(operands) if unsigned(shift) < width_of(base.type) else None

    def verify_(self) -> None:
        require(self, [self.base.type, self.shift.type], is_integer, "integer")
        check_one_width(self, [self.base.type, self.result.type])
        if component_count(self.base.type) != component_count(self.shift.type):
            raise VerifyException(
                f"{self.name}: base and shift have as many components, not {self.base.type} and "
                f"{self.shift.type}"
            )


@irdl_op_definition
class ShiftLeftLogicalOp(Shift):
    """Shifts left; zeros come in."""

    name = "spirv.ShiftLeftLogical"
    COMPUTE: ClassVar[Compute] = operator.lshift


@irdl_op_definition
class ShiftRightLogicalOp(Shift):
    """Shifts right; zeros come in."""

    name = "spirv.ShiftRightLogical"
    COMPUTE: ClassVar[Compute] = operator.rshift


@irdl_op_definition
class ShiftRightArithmeticOp(Shift):
    """Shifts right; copies of the sign bit come in."""

    name = "spirv.ShiftRightArithmetic"
    SIGNED: ClassVar[bool] = True
    COMPUTE: ClassVar[Compute] = operator.rshift


@irdl_op_definition
class BitFieldInsertOp(SPIRVOp):
    """`spirv.BitFieldInsert %base, %insert, %offset, %count : base, offset, count type`."""

    name = "spirv.BitFieldInsert"
    T: ClassVar = VarConstraint("T", AnyAttr())
    base = operand_def(T)
    insert = operand_def(T)
    offset = operand_def()
    count = operand_def()
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` type($base) `,` type($offset) `,` type($count)"

    def verify_(self) -> None:
        require(self, [o.type for o in self.operands], is_integer, "integer")


class BitFieldExtract(SPIRVOp, ABC):
    """`spirv.X %base, %offset, %count : base type, offset type, count type`."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    base = operand_def(T)
    offset = operand_def()
    count = operand_def()
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` type($base) `,` type($offset) `,` type($count)"

    def verify_(self) -> None:
        require(self, [o.type for o in self.operands], is_integer, "integer")


@irdl_op_definition
class BitFieldSExtractOp(BitFieldExtract):
    """A bit field, sign-extended."""

    name = "spirv.BitFieldSExtract"


@irdl_op_definition
class BitFieldUExtractOp(BitFieldExtract):
    """A bit field, zero-extended."""

    name = "spirv.BitFieldUExtract"
