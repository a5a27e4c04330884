"""
Loads and stores cooperative matrices through tensor layouts (SPV_NV_cooperative_matrix2).

The text after the layout gives the addressing operands: `spirv.NV.CooperativeMatrixLoadTensor %p,
%m, %layout view(%v) decode(@f) ["Aligned", 16] : types`. Elements outside of the view are copied
from `%m`. MLIR has none of these operations.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Self

from xdsl.dialects.builtin import FlatSymbolRefAttrConstr, IntegerAttr, SymbolRefAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.attributes import MemoryAccessAttr, TensorAddressingOperandsAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.cooperative_matrix_2 import find_function
from xdsl_spirv.dialects.spirv.enums import MemoryAccess, TensorAddressingOperands
from xdsl_spirv.dialects.spirv.pointers import POINTER, SCOPE, MemoryOperand, ReadsMemory
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.dialects.spirv.types_declared import TensorLayoutType, TensorViewType

VIEW = TensorAddressingOperands.TensorView
FUNCTIONS = {
    "decode_func": ("decode", TensorAddressingOperands.DecodeFunc),
    "decode_vector_func": ("decode_vector", TensorAddressingOperands.DecodeVectorFunc),
}
"""Maps the keyword of an optional function to the operand bit that is set for it."""


class MatrixTensorOperation(SPIRVOp, ABC):
    """Accesses the part of a tensor that a layout and an optional view select."""

    STORES: ClassVar[bool]
    pointer = operand_def(POINTER)
    object = operand_def(CooperativeMatrixType)
    tensor_layout = operand_def(TensorLayoutType)
    tensor_view = opt_operand_def(TensorViewType)
    memory_operand = prop_def(MemoryAccessAttr)
    alignment = opt_prop_def(IntegerAttr)
    memory_scope = opt_prop_def(SCOPE)
    tensor_addressing_operands = prop_def(TensorAddressingOperandsAttr)
    decode_func = opt_prop_def(FlatSymbolRefAttrConstr)
    decode_vector_func = opt_prop_def(FlatSymbolRefAttrConstr)

    @classmethod
    def of(
        cls,
        operands: list[SSAValue],
        memory: MemoryOperand,
        functions: dict[str, SymbolRefAttr],
        attributes: dict[str, Attribute] | None = None,
    ) -> Self:
        """
        Creates the operation. `operands` are the pointer, the matrix, the layout and an optional
        view.
        """
        addressing = VIEW if len(operands) == 4 else TensorAddressingOperands.None_
        for name in functions:
            addressing |= FUNCTIONS[name][1]
        properties: dict[str, Attribute] = {
            "memory_operand": memory.access or MemoryAccessAttr(MemoryAccess.None_),
            "tensor_addressing_operands": TensorAddressingOperandsAttr(addressing),
            **functions,
        }
        if memory.alignment is not None:
            properties["alignment"] = memory.alignment
        if memory.scope is not None:
            properties["memory_scope"] = memory.scope
        return cls.create(
            operands=operands,
            properties=properties,
            attributes=attributes or {},
            result_types=[] if cls.STORES else [operands[1].type],
        )

    @property
    def memory(self) -> MemoryOperand:
        """The memory operand with its parameters."""
        return MemoryOperand(self.memory_operand, self.alignment, self.memory_scope)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        start = parser.pos
        operands = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        if parser.parse_optional_keyword("view"):
            with parser.in_parens():
                operands.append(parser.parse_unresolved_operand())
        functions: dict[str, SymbolRefAttr] = {}
        for name, (keyword, _) in FUNCTIONS.items():
            if parser.parse_optional_keyword(keyword):
                with parser.in_parens():
                    functions[name] = SymbolRefAttr(parser.parse_symbol_name())
        memory = MemoryOperand.parse_optional(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        values = parser.resolve_operands(operands, types, start)
        return cls.of(list(values), memory, functions, attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands[:3], printer.print_operand)
        if self.tensor_view is not None:
            printer.print_string(" view(")
            printer.print_operand(self.tensor_view)
            printer.print_string(")")
        for name, (keyword, _) in FUNCTIONS.items():
            function = self.properties.get(name)
            if function is not None:
                printer.print_string(f" {keyword}(")
                printer.print_attribute(function)
                printer.print_string(")")
        if self.memory_operand.data:
            self.memory.print(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)

    def verify_(self) -> None:
        rules.cm_15_memory_operand(self.memory_operand, store=self.STORES)
        self.memory.verify(MemoryAccess.None_, self.name)
        given = TensorAddressingOperands.None_
        if self.tensor_view is not None:
            given |= VIEW
        for name, (_, bit) in FUNCTIONS.items():
            function = self.properties.get(name)
            if isinstance(function, SymbolRefAttr):
                given |= bit
                find_function(self, function)
        if given != self.tensor_addressing_operands.data:
            raise VerifyException(
                f"{self.name}: the mask of addressing operands is "
                f"{self.tensor_addressing_operands.spell(self.tensor_addressing_operands.data)}, "
                f"but the operands need {self.tensor_addressing_operands.spell(given)}"
            )
        if self.STORES and given & ~VIEW:
            raise VerifyException(f"{self.name}: only a load can decode")


class CooperativeMatrixLoadTensorOp(
    MatrixTensorOperation, name="spirv.NV.CooperativeMatrixLoadTensor"
):
    """
    OpCooperativeMatrixLoadTensorNV: loads a matrix. Elements outside of the view are copied from
    the matrix operand.
    """

    STORES: ClassVar[bool] = False
    result = result_def(CooperativeMatrixType)
    traits = traits_def(ReadsMemory())

    def verify_(self) -> None:
        super().verify_()
        if self.object.type != self.result.type:
            raise VerifyException(
                f"{self.name} must return its operand's type {self.object.type}, not "
                f"{self.result.type}"
            )


class CooperativeMatrixStoreTensorOp(
    MatrixTensorOperation, name="spirv.NV.CooperativeMatrixStoreTensor"
):
    """OpCooperativeMatrixStoreTensorNV: stores a matrix."""

    STORES: ClassVar[bool] = True
    traits = traits_def(MemoryWriteEffect())
