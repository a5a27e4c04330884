"""
Composites of one repeated value, and constant arrays as words.

The extensions are SPV_EXT_replicated_composites and SPV_KHR_constant_data. The replicated constants
are MLIR's: `spirv.EXT.ConstantCompositeReplicate [1 : i32] : vector<2xi32>` and
`spirv.EXT.SpecConstantCompositeReplicate @v (@x) : vector<2xi32>`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FlatSymbolRefAttrConstr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    SymbolNameConstraint,
    i32,
)
from xdsl.ir import Attribute, Operation, TypeAttribute
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def, traits_def
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constants import (
    ConstantSymbol,
    constituent_types,
    type_of_constant,
    verify_constant,
    verify_lengths,
)
from xdsl_spirv.dialects.spirv.constraints import is_integer, width_of
from xdsl_spirv.dialects.spirv.types import ArrayType, Repeated, known_size


def constituent_type(op: Operation, composite: Attribute) -> Attribute:
    """
    Returns the type that all constituents of a composite have.

    Raises `VerifyException` if the types differ, or there are no constituents.
    """
    types = constituent_types(composite)
    if isinstance(types, Repeated):
        return types.element
    if not types or any(t != types[0] for t in types):
        raise VerifyException(
            f"{op.name} repeats one value, so the constituents of {composite} must have equal types"
        )
    return types[0]


def repeated_types(op: Operation, value: Attribute, composite: Attribute) -> list[Attribute]:
    """
    Returns the type of a composite, the type of its constituents, and so on, down to the type of
    `value`.

    In MLIR, the value is the innermost constituent, which all outer levels repeat. Raises
    `VerifyException` if no level has the type of `value`.
    """
    types = [composite, constituent_type(op, composite)]
    while True:
        try:
            verify_constant(value, types[-1])
            return types
        except VerifyException:
            if not constituent_types(types[-1]):
                raise
            types.append(constituent_type(op, types[-1]))


class ConstantCompositeReplicateOp(SPIRVOp, name="spirv.EXT.ConstantCompositeReplicate"):
    """OpConstantCompositeReplicateEXT. All constituents have the value `value`."""

    value = prop_def(Attribute)
    result = result_def()
    traits = traits_def(Pure(), ConstantLike())
    assembly_format = "` ` `[` $value `]` `:` type($result) attr-dict"

    def verify_(self) -> None:
        verify_constituent(self, self.value, self.result.type)


def verify_constituent(op: Operation, value: Attribute, composite: Attribute) -> None:
    """Raises `VerifyException` if the value is not a (nested) constituent of the composite."""
    if isinstance(value, IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr | ArrayAttr):
        repeated_types(op, value, composite)
    else:
        raise VerifyException(f"{value} cannot be the value of {constituent_type(op, composite)}")


class SpecConstantCompositeReplicateOp(
    ConstantSymbol, name="spirv.EXT.SpecConstantCompositeReplicate"
):
    """OpSpecConstantCompositeReplicateEXT: all constituents are the constant `constituent`."""

    sym_name = prop_def(SymbolNameConstraint())
    constituent = prop_def(FlatSymbolRefAttrConstr)
    type = prop_def(TypeAttribute)
    traits = traits_def(SymbolOpInterface())
    assembly_format = "$sym_name ` ` `(` $constituent `)` `:` $type attr-dict"

    @property
    def constant_type(self) -> Attribute:
        return self.type

    def verify_(self) -> None:
        expected = constituent_type(self, self.type)
        verify_lengths(self, self.type)
        if self.parent_op() is None:
            return
        type = type_of_constant(self, self.constituent)
        if type != expected:
            raise VerifyException(
                f"{self.constituent} has type {type}, but {expected} is needed here"
            )


class CompositeConstructReplicateOp(SPIRVOp, name="spirv.EXT.CompositeConstructReplicate"):
    """
    OpCompositeConstructReplicateEXT: all constituents are the operand.

    `spirv.EXT.CompositeConstructReplicate %x : f32 -> !spirv.coopmatrix<...>`.
    """

    value = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def verify_(self) -> None:
        expected = constituent_type(self, self.result.type)
        if self.value.type != expected:
            raise VerifyException(
                f"the constituents of {self.result.type} must be {expected}, not {self.value.type}"
            )


def _words(data: Sequence[int]) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(i32, [w - (w >> 31 << 32) if w >= 0 else w for w in data])


@irdl_custom_directive
class Words(CustomDirective):
    """Syntax of 32-bit words, signed or unsigned: `[1, 4294967295]`."""

    words: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        words = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
        )
        self.words.set(state, _words(words))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        data = cast(DenseArrayBase[IntegerType], self.words.get(op))
        printer.print_string(str(list(data.get_values())))


class ConstantData(SPIRVOp, ABC):
    """
    An array of integers given as little-endian 32-bit words. The last word may end with padding.
    """

    data = prop_def(DenseArrayBase.constr(i32))

    def check_data(self, type: Attribute) -> None:
        """Checks that the type is an array of integers that the words fill."""
        if not isinstance(type, ArrayType) or not is_integer(type.element_type):
            raise VerifyException(f"{self.name} must return an array of integers, not {type}")
        length = known_size(type.length)
        if length is None:
            raise VerifyException(f"{self.name} needs an array whose length is a number")
        words = -(-length * width_of(type.element_type) // 32)
        if len(self.data) != words:
            raise VerifyException(f"{type} needs {words} words, but {len(self.data)} are given")


class ConstantDataOp(ConstantData, name="spirv.KHR.ConstantData"):
    """OpConstantDataKHR: `spirv.KHR.ConstantData [1, 2] : !spirv.array<2 x i32>`."""

    result = result_def()
    traits = traits_def(Pure(), ConstantLike())
    custom_directives = (Words,)
    assembly_format = "custom<Words>($data) `:` type($result) attr-dict"

    def __init__(self, data: Sequence[int], result_type: Attribute):
        super().__init__(_words(data), result_type)

    def verify_(self) -> None:
        self.check_data(self.result.type)


class SpecConstantDataOp(ConstantSymbol, ConstantData, name="spirv.KHR.SpecConstantData"):
    """OpSpecConstantDataKHR: `spirv.KHR.SpecConstantData @d [1, 2] : !spirv.array<2 x i32>`."""

    sym_name = prop_def(SymbolNameConstraint())
    type = prop_def(TypeAttribute)
    traits = traits_def(SymbolOpInterface())
    custom_directives = (Words,)
    assembly_format = "$sym_name custom<Words>($data) `:` $type attr-dict"

    def __init__(self, sym_name: str, data: Sequence[int], type: TypeAttribute):
        super().__init__(sym_name=sym_name, type=type, data=_words(data))

    @property
    def constant_type(self) -> Attribute:
        return self.type

    def verify_(self) -> None:
        self.check_data(self.type)
