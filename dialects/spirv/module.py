"""
The module: what may stand in it, and the rules that need all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, SymbolNameConstraint
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, OptionalSymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.abi import VerCapExtAttr
from xdsl_spirv.dialects.spirv.attributes import AddressingModelAttr, MemoryModelAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.enums import AddressingModel, MemoryModel
from xdsl_spirv.dialects.spirv.rules_module import check_module
from xdsl_spirv.upstream.isolated import Isolated
from xdsl_spirv.upstream.symbols import symbols_at_hand

IN_A_MODULE = frozenset(
    f"spirv.{name}"
    for name in (
        "Constant ConstantNull Undef SpecConstant SpecConstantComposite SpecConstantOperation "
        "mlir.referenceof RawGlobal GlobalVariable func EntryPoint ExecutionMode "
        "KHR.UntypedGlobalVariable EXT.ConstantCompositeReplicate "
        "EXT.SpecConstantCompositeReplicate KHR.ConstantData KHR.SpecConstantData"
    ).split()
)
"""What may stand directly in a module."""


@irdl_op_definition
class ModuleOp(SPIRVOp):
    """
    A SPIR-V module, with the models that OpMemoryModel states.

    `spirv.module @m Logical Vulkan requires #spirv.vce<v1.6, [Shader], []> { ... }`.
    """

    name = "spirv.module"
    addressing_model = prop_def(AddressingModelAttr)
    memory_model = prop_def(MemoryModelAttr)
    vce_triple = opt_prop_def(VerCapExtAttr)
    sym_name = opt_prop_def(SymbolNameConstraint())
    body = region_def("single_block")
    traits = traits_def(Isolated(), NoTerminator(), SymbolTable(), OptionalSymbolOpInterface())

    def __init__(
        self,
        body: Region | Sequence[Operation] = (),
        addressing_model: AddressingModel = AddressingModel.Logical,
        memory_model: MemoryModel = MemoryModel.Vulkan,
        vce_triple: VerCapExtAttr | None = None,
        sym_name: str | None = None,
    ):
        super().__init__(
            properties={
                "addressing_model": AddressingModelAttr(addressing_model),
                "memory_model": MemoryModelAttr(memory_model),
                "vce_triple": vce_triple,
                "sym_name": None if sym_name is None else StringAttr(sym_name),
            },
            regions=[body if isinstance(body, Region) else Region(Block(body))],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ModuleOp:
        name = parser.parse_optional_symbol_name()
        addressing_model = AddressingModelAttr.parse_enumerant(parser)
        memory_model = MemoryModelAttr.parse_enumerant(parser)
        triple = None
        if parser.parse_optional_keyword("requires"):
            start = parser.pos
            triple = parser.parse_attribute()
            if not isinstance(triple, VerCapExtAttr):
                parser.raise_error("expected #spirv.vce<...>", start, parser.pos)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        if not body.blocks:
            body.add_block(Block())
        op = cls(body, addressing_model, memory_model, triple, name.data if name else None)
        if attributes is not None:
            op.attributes |= attributes.data
        return op

    def print(self, printer: Printer) -> None:
        if self.sym_name is not None:
            printer.print_string(" ")
            printer.print_symbol_name(self.sym_name.data)
        for model in (self.addressing_model, self.memory_model):
            printer.print_string(f" {model.spell(model.data)}")
        if self.vce_triple is not None:
            printer.print_string(" requires ")
            printer.print_attribute(self.vce_triple)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    def verify(self, verify_nested_ops: bool = True) -> None:
        """As xDSL's, with the module's symbols at hand."""
        with symbols_at_hand(self):
            super().verify(verify_nested_ops)

    def verify_(self) -> None:
        if self.body.block.args:
            raise VerifyException("a spirv.module takes no arguments")
        for op in self.body.block.ops:
            if op.name not in IN_A_MODULE:
                raise VerifyException(
                    f"{op.name} cannot stand directly in a spirv.module: only constants, global "
                    "variables, functions, entry points and execution modes can"
                )
        check_module(self)
