"""
SPV_ARM_graph: graphs of operators on whole tensors, which VK_ARM_data_graph executes.

The syntax is MLIR 22's. A graph's arguments represent OpGraphInputARM, and
`spirv.ARM.GraphOutputs` represents all OpGraphSetOutputARM.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    FunctionType,
    IntegerAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    i32,
)
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Block, Region
from xdsl.irdl import (
    lazy_traits_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.function import (
    parse_signature,
    print_signature,
    set_attributes,
    set_signature_attributes,
)
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.structure import FurtherSymbols
from xdsl_spirv.dialects.spirv.types import PointerType
from xdsl_spirv.dialects.spirv.types_declared import TensorArmType
from xdsl_spirv.upstream.isolated import Isolated
from xdsl_spirv.upstream.symbols import find_symbol


class GraphOp(SPIRVOp, name="spirv.ARM.Graph"):
    """OpGraphARM: `spirv.ARM.Graph @g(%x: !spirv.arm.tensor<4xi8>) -> !spirv.arm.tensor<4xi8>`."""

    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    entry_point = opt_prop_def(BoolAttr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def("single_block")
    traits = lazy_traits_def(
        lambda: (Isolated(), SymbolOpInterface(), HasParent(ModuleOp, BuiltinModuleOp))
    )

    def __init__(
        self,
        sym_name: str,
        function_type: tuple[Sequence[Attribute], Sequence[Attribute]],
        body: Region | None = None,
        *,
        entry_point: bool = False,
    ):
        """Creates a graph. Without `body`, it gets a block with the inputs as arguments."""
        super().__init__(
            sym_name,
            FunctionType.from_lists(*function_type),
            Region(Block(arg_types=function_type[0])) if body is None else body,
            entry_point=True if entry_point else None,
        )

    @classmethod
    def parse(cls, parser: Parser) -> GraphOp:
        name, arguments, outputs = parse_signature(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region([name for name, _, _ in arguments if name is not None])
        types = [type for _, type, _ in arguments], [type for type, _ in outputs]
        op = cls(name, types, body)
        set_signature_attributes(op, arguments, outputs)
        set_attributes(op, {} if attributes is None else attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        print_signature(printer, self)
        own = {} if self.entry_point is None else {"entry_point": self.entry_point}
        printer.print_op_attributes(own | self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def verify_(self) -> None:
        types = [*self.function_type.inputs, *self.function_type.outputs]
        if not all(isinstance(t, TensorArmType) for t in types):
            raise VerifyException(f"{self.name}: inputs and outputs must be tensors")
        if not self.function_type.outputs.data:
            raise VerifyException(f"{self.name}: a graph must have an output")
        if self.body.block.arg_types != self.function_type.inputs.data:
            raise VerifyException(
                f"{self.name}: the block's arguments must have the types of the graph's inputs"
            )
        last = self.body.block.last_op
        if not isinstance(last, GraphOutputsOp):
            raise VerifyException(f"{self.name} must end with spirv.ARM.GraphOutputs")
        if last.operand_types != self.function_type.outputs.data:
            raise VerifyException(
                f"{last.name} gives {[str(t) for t in last.operand_types]}, "
                f"but the graph's outputs are {[str(t) for t in self.function_type.outputs]}"
            )


class GraphEntryPointOp(SPIRVOp, name="spirv.ARM.GraphEntryPoint"):
    """OpGraphEntryPointARM, with a variable for each input and output, in order."""

    fn = prop_def(FlatSymbolRefAttrConstr)
    interface = prop_def(ArrayAttr[SymbolRefAttr])
    custom_directives = (FurtherSymbols,)
    assembly_format = "$fn custom<FurtherSymbols>($interface) attr-dict"

    def verify_(self) -> None:
        module = self.parent_op()
        if module is None:
            return
        graph = find_symbol(module, self.fn)
        if not isinstance(graph, GraphOp):
            raise VerifyException(f"{self.name}: {self.fn} is not a spirv.ARM.Graph of the module")
        types = [*graph.function_type.inputs, *graph.function_type.outputs]
        if len(types) != len(self.interface):
            raise VerifyException(
                f"{self.name}: the graph has {len(types)} inputs and outputs, "
                f"but the interface has {len(self.interface)} variables"
            )
        for symbol, type in zip(self.interface, types, strict=True):
            variable = find_symbol(module, symbol)
            held = None if variable is None else variable.properties.get("type")
            if held != PointerType(type, StorageClass.UniformConstant):
                raise VerifyException(
                    f"{self.name}: {symbol} is not a variable in UniformConstant that holds {type}"
                )


class GraphConstantOp(SPIRVOp, name="spirv.ARM.GraphConstant"):
    """
    OpGraphConstantARM, a tensor that is given when the pipeline is created:
    `spirv.ARM.GraphConstant {graph_constant_id = 0 : i32} : !spirv.arm.tensor<2xf32>`.
    """

    graph_constant_id = prop_def(IntegerAttr)
    result = result_def(TensorArmType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> GraphConstantOp:
        """
        Parses the operation. Also accepts the syntax of later MLIR versions:
        `spirv.ARM.GraphConstant id = 0 : ...`.
        """
        attributes = parser.parse_optional_attr_dict()
        if parser.parse_optional_keyword("id"):
            parser.parse_punctuation("=")
            attributes["graph_constant_id"] = IntegerAttr(parser.parse_integer(), i32)
        number = attributes.pop("graph_constant_id", None)
        if not isinstance(number, IntegerAttr):
            parser.raise_error("a graph's constant must have a graph_constant_id")
        parser.parse_punctuation(":")
        op = cls(number.value.data, parser.parse_type())
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.properties | self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


class GraphOutputsOp(SPIRVOp, name="spirv.ARM.GraphOutputs"):
    """Returns the outputs of a graph: OpGraphSetOutputARM for each, then OpGraphEndARM."""

    value = var_operand_def()
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(GraphOp)))
    assembly_format = "$value attr-dict `:` type($value)"
