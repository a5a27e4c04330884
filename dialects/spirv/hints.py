"""
Hints for compilers and debuggers, and instructions with special values or effects.

They are assumptions and expectations (SPV_KHR_expect_assume), poison (SPV_KHR_poison_freeze),
arithmetic fences, the clock, and abort. MLIR only has `spirv.KHR.AssumeTrue`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, VectorType, i1
from xdsl.ir import Attribute, SSAValue, TypeAttribute
from xdsl.irdl import AnyAttr, VarConstraint, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.attributes import ScopeAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp, Value
from xdsl_spirv.dialects.spirv.constraints import (
    TernaryOperation,
    check_arithmetic,
    component_count,
    is_bool,
    is_integer,
    require,
    width_of,
)
from xdsl_spirv.dialects.spirv.enums import Scope


class NopOp(SPIRVOp):
    """OpNop, which does nothing: `spirv.Nop`."""

    assembly_format = "attr-dict"


class AssumeTrueOp(SPIRVOp, name="spirv.KHR.AssumeTrue"):
    """OpAssumeTrueKHR: `spirv.KHR.AssumeTrue %b`. Undefined behaviour if `%b` is false."""

    condition = operand_def(i1)
    assembly_format = "$condition attr-dict"


class ExpectOp(SPIRVOp, name="spirv.KHR.Expect"):
    """
    OpExpectKHR: `spirv.KHR.Expect %x, %likely : i32` returns `%x`, and tells the compiler that `%x`
    probably equals `%likely`.
    """

    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    expected_value = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$value `,` $expected_value attr-dict `:` type($result)"

    def verify_(self) -> None:
        types = [self.value.type]
        require(self, types, lambda t: is_integer(t) or is_bool(t), "integer or Boolean")


class PoisonOp(SPIRVOp, name="spirv.KHR.Poison"):
    """OpPoisonKHR: `spirv.KHR.Poison : f32`, a value that no computation may depend on."""

    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


class SameValue(SPIRVOp, ABC):
    """An operation whose result has the operand's type: `spirv.X %x : f32`."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    result = result_def(T)
    assembly_format = "$value attr-dict `:` type($result)"


class FreezeOp(SameValue, name="spirv.KHR.Freeze"):
    """OpFreezeKHR: returns the operand. Poison becomes one arbitrary value for all uses."""

    traits = traits_def(Pure())


class ArithmeticFenceOp(SameValue, name="spirv.EXT.ArithmeticFence"):
    """OpArithmeticFenceEXT: returns the operand. Arithmetic is not rearranged across the fence."""

    traits = traits_def(Pure())

    def verify_(self) -> None:
        require(self, [self.value.type], has_float_encoding, "floating-point")


def has_float_encoding(type_: Attribute) -> bool:
    """True for a float of any encoding."""
    return width_of(type_) > 0 and not is_integer(type_) and not is_bool(type_)


class FmaOp(TernaryOperation, name="spirv.KHR.Fma"):
    """OpFmaKHR: `spirv.KHR.Fma %a, %b, %c : f32` returns a * b + c, rounded once."""

    def verify_(self) -> None:
        check_arithmetic(self, [self.x.type], floating=True, matrices=False)


class BitcastExtractOp(SPIRVOp, name="spirv.EXT.BitcastExtract"):
    """
    OpBitcastExtractEXT: reads a smaller type from each integer's bits, at a bit offset.

    `spirv.EXT.BitcastExtract %base[%offset] : vector<4xi8>, i32 -> vector<4xf4E2M1FN>`.
    """

    base = operand_def()
    offset = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "$base `[` $offset `]` attr-dict `:` type($base) `,` type($offset) `->` type($result)"
    )

    def verify_(self) -> None:
        if not is_integer(self.offset.type):
            raise VerifyException(
                f"{self.name}: the offset must be an integer, not {self.offset.type}"
            )
        base, result = self.base.type, self.result.type
        if not is_integer(rules.element_of(base)) or not rules.is_scalar_or_vector(result):
            raise VerifyException(
                f"{self.name} converts integers to scalars or vectors, not {base} to {result}"
            )
        if component_count(base) != component_count(result):
            raise VerifyException(
                f"{self.name} cannot change the number of components: {base} to {result}"
            )
        widths = [width_of(rules.element_of(t)) for t in (base, result)]
        if widths[1] > widths[0]:
            raise VerifyException(
                f"{self.name} takes {widths[1]} bits out of {base}, whose components have "
                f"{widths[0]}"
            )


class ReadClockOp(SPIRVOp, name="spirv.KHR.ReadClock"):
    """OpReadClockKHR: `spirv.KHR.ReadClock <Subgroup> : i64`, or `vector<2xi32>`."""

    FIELDS: ClassVar[Mapping[str, str]] = {"scope": "execution_scope"}
    execution_scope = prop_def(ScopeAttr)
    result = result_def()
    assembly_format = "$execution_scope attr-dict `:` type($result)"

    def verify_(self) -> None:
        type_ = self.result.type
        element = rules.element_of(type_)
        pair = isinstance(type_, VectorType) and type_.get_shape() == (2,)
        wide = isinstance(element, IntegerType) and element.width.data == (32 if pair else 64)
        if not wide or rules.is_signed(element) or isinstance(type_, VectorType) != pair:
            raise VerifyException(
                f"{self.name} must return an unsigned i64 or vector<2xi32>, not {type_}"
            )
        if self.execution_scope.data not in (Scope.Device, Scope.Subgroup):
            raise VerifyException(
                f"{self.name}: the scope must be Device or Subgroup, not "
                f"{self.execution_scope.data.name}"
            )


class AbortOp(SPIRVOp, name="spirv.KHR.Abort"):
    """OpAbortKHR: ends the launch. `spirv.KHR.Abort %message : !spirv.struct<(i32, f32)>`"""

    message_type = prop_def(TypeAttribute)
    message = operand_def()
    traits = traits_def(IsTerminator())

    def __init__(self, message: Value):
        message = SSAValue.get(message)
        super().__init__(message.type, message)

    @classmethod
    def parse(cls, parser: Parser) -> AbortOp:
        operand = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(parser.resolve_operand(operand, parser.parse_type()))
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.message)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.message.type)

    def verify_(self) -> None:
        if self.message_type != self.message.type:
            raise VerifyException(
                f"message_type is {self.message_type}, but the message has type {self.message.type}"
            )
