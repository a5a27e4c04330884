"""Bit operations on integers (SPIR-V 3.42.14): shifts, bitwise logic, bit fields and counts."""

from __future__ import annotations

import operator
from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.irdl import AnyAttr, VarConstraint, operand_def, result_def, traits_def
from xdsl.traits import Commutative, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import (
    UnaryOperation,
    component_count,
    is_integer,
    require,
    width_of,
)
from xdsl_spirv.dialects.spirv.folding import IntegerFoldable, unsigned
from xdsl_spirv.dialects.spirv.signedness import (
    BaseAndFurtherTypes,
    IntegerBinary,
    IntegerUnary,
    check_one_width,
)


class BitwiseBinary(IntegerBinary, IntegerFoldable, ABC):
    """Combines two values bit by bit."""

    traits = traits_def(Commutative())


# fmt: off
class BitwiseAndOp(BitwiseBinary, compute=operator.and_, neutral=-1, absorbing=0):
    """Bitwise and."""
class BitwiseOrOp(BitwiseBinary, compute=operator.or_, neutral=0, absorbing=-1): """Bitwise or."""
class BitwiseXorOp(BitwiseBinary, compute=operator.xor, neutral=0): """Bitwise exclusive or."""
class NotOp(IntegerUnary, IntegerFoldable, compute=operator.invert): """Bitwise complement."""
# fmt: on


class BitReverseOp(UnaryOperation):
    """Reverses the order of the bits."""

    def verify_(self) -> None:
        require(self, [self.operand.type], is_integer, "integer")


class BitCountOp(IntegerUnary):
    """The number of set bits. Operand and result may have different widths."""

    def verify_(self) -> None:
        types = [self.operand.type, self.result.type]
        require(self, types, is_integer, "integer")
        if component_count(types[0]) != component_count(types[1]):
            raise VerifyException(
                f"{self.name} cannot change the number of components: {types[0]} to {types[1]}"
            )


class Shift(IntegerFoldable, ABC, result="base"):
    """
    Shifts the bits of each component: `spirv.X %base, %shift : base type, shift type`.

    A shift by the width or more is undefined. A result type of another signedness is printed at
    the end: `: i32, i32 -> si32`.
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

    def component(self, operands: Sequence[IntegerAttr]) -> int | None:
        base, shift = operands
        return super().component(operands) if unsigned(shift) < width_of(base.type) else None

    def verify_(self) -> None:
        require(self, [self.base.type, self.shift.type], is_integer, "integer")
        check_one_width(self, [self.base.type, self.result.type])
        if component_count(self.base.type) != component_count(self.shift.type):
            raise VerifyException(
                f"{self.name}: {self.base.type} and {self.shift.type} have different numbers of "
                "components"
            )


# fmt: off
class ShiftLeftLogicalOp(Shift, compute=operator.lshift): """Shifts left and fills with zeros."""
class ShiftRightLogicalOp(Shift, compute=operator.rshift): """Shifts right and fills with zeros."""
class ShiftRightArithmeticOp(Shift, signed=True, compute=operator.rshift):
    """Shifts right and fills with copies of the sign bit."""
# fmt: on


class BitFieldInsertOp(SPIRVOp):
    """
    Replaces a bit field of each component of the base.

    `spirv.BitFieldInsert %base, %insert, %offset, %count : base, offset, count type`.
    """

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
    """Extracts a bit field: `spirv.X %base, %offset, %count : base, offset, count type`."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    base = operand_def(T)
    offset = operand_def()
    count = operand_def()
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` type($base) `,` type($offset) `,` type($count)"

    def verify_(self) -> None:
        require(self, [o.type for o in self.operands], is_integer, "integer")


class BitFieldSExtractOp(BitFieldExtract):
    """Extracts a bit field and extends its sign."""


class BitFieldUExtractOp(BitFieldExtract):
    """Extracts a bit field and extends it by zeros."""
