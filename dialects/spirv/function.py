"""
Functions. The body of a function uses only its own values, and refers to the rest of the module by
symbols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, SymbolNameConstraint
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.dialects.utils import print_func_argument, print_func_output
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import lazy_traits_def, opt_prop_def, prop_def, region_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import CallableOpInterface, HasParent, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.abi import LinkageAttributesAttr
from xdsl_spirv.dialects.spirv.attributes import FunctionControlAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.enums import FunctionControl
from xdsl_spirv.dialects.spirv.flow_graph import verify_dominance
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.upstream.isolated import Isolated


class _Callable(CallableOpInterface):
    @classmethod
    def get_callable_region(cls, op: Operation) -> Region:
        return op.regions[0]

    @classmethod
    def get_argument_types(cls, op: Operation) -> tuple[Attribute, ...]:
        return op.function_type.inputs.data if isinstance(op, FuncOp) else ()

    @classmethod
    def get_result_types(cls, op: Operation) -> tuple[Attribute, ...]:
        return op.function_type.outputs.data if isinstance(op, FuncOp) else ()


_ARGUMENT = tuple[Parser.Argument | None, Attribute, dict[str, Attribute]]
_OUTPUT = tuple[Attribute, dict[str, Attribute]]


class FuncOp(SPIRVOp, name="spirv.func"):
    """
    OpFunction: `spirv.func @f(%x: f32) -> f32 "Inline" { ... }`.

    A function without a body is defined in another module, and needs `linkage_attributes`.
    """

    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    function_control = prop_def(FunctionControlAttr)
    linkage_attributes = opt_prop_def(LinkageAttributesAttr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def()
    traits = lazy_traits_def(
        lambda: (
            Isolated(),
            SymbolOpInterface(),
            _Callable(),
            HasParent(ModuleOp, BuiltinModuleOp),
        )
    )

    def __init__(
        self,
        sym_name: str,
        function_type: FunctionType | tuple[Sequence[Attribute], Sequence[Attribute]],
        body: Region | None = None,
        function_control: FunctionControl = FunctionControl.None_,
        linkage_attributes: LinkageAttributesAttr | None = None,
    ):
        """Creates a function. Without `body`, it gets an empty block with the arguments."""
        if isinstance(function_type, tuple):
            function_type = FunctionType.from_lists(*function_type)
        if body is None:
            body = Region(Block(arg_types=function_type.inputs))
        super().__init__(sym_name, function_type, function_control, body, linkage_attributes)

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        name, arguments, outputs = parse_signature(parser)
        control = FunctionControlAttr.parse_quoted(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        named = [argument for argument, _, _ in arguments if argument is not None]
        if named and len(named) != len(arguments):
            parser.raise_error("either all arguments of a function must have names, or none")
        body = parser.parse_optional_region(named or None) or Region()
        inputs = [type for _, type, _ in arguments]
        op = cls(name, (inputs, [type for type, _ in outputs]), body, control)
        set_signature_attributes(op, arguments, outputs)
        if attributes is not None:
            set_attributes(op, attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        print_signature(printer, self)
        control = self.function_control
        printer.print_string(f' "{control.spell(control.data)}"')
        hidden = {"sym_name", "function_type", "function_control", "arg_attrs", "res_attrs"}
        shown = {k: v for k, v in self.properties.items() if k not in hidden} | self.attributes
        printer.print_op_attributes(shown, print_keyword=True)
        if self.body.blocks:
            printer.print_string(" ")
            printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    @property
    def result_type(self) -> Attribute | None:
        """The type of the function's result. None if it has no result."""
        outputs = self.function_type.outputs.data
        return outputs[0] if outputs else None

    def verify_(self) -> None:
        if len(self.function_type.outputs) > 1:
            raise VerifyException(
                "a SPIR-V function can return at most one value: return several as a spirv.struct"
            )
        for own, types in (
            (self.arg_attrs, self.function_type.inputs),
            (self.res_attrs, self.function_type.outputs),
        ):
            if own is not None and len(own) != len(types):
                raise VerifyException(
                    f"{len(types)} arguments or results have {len(own)} attribute dictionaries"
                )
        if not self.body.blocks:
            if self.linkage_attributes is None and isinstance(self.parent_op(), ModuleOp):
                raise VerifyException(
                    "a function without a body must be imported: add linkage_attributes, or a body"
                )
            return
        arguments = self.body.blocks[0].arg_types
        if tuple(arguments) != self.function_type.inputs.data:
            raise VerifyException(
                "the entry block's arguments must have the types of the function's inputs"
            )
        verify_dominance(self.body)
        if not isinstance(self.parent_op(), ModuleOp):
            return
        for op in self.body.walk():
            if not op.name.startswith("spirv."):
                raise VerifyException(
                    f"{op.name} cannot be in a function of a spirv.module: lower it to spirv first"
                )


def parse_signature(parser: Parser) -> tuple[str, list[_ARGUMENT], list[_OUTPUT]]:
    """Parses the name, the arguments and the results of a function or graph, with attributes."""
    name = parser.parse_symbol_name().data
    arguments = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: _parse_argument(parser)
    )
    return name, arguments, _parse_outputs(parser)


def set_signature_attributes(
    op: SPIRVOp, arguments: Sequence[_ARGUMENT], outputs: Sequence[_OUTPUT]
) -> None:
    """Stores the attributes of a function's or graph's arguments and results, if any."""
    if any(own for _, _, own in arguments):
        entries = [DictionaryAttr(own) for _, _, own in arguments]
        op.properties["arg_attrs"] = ArrayAttr(entries)
    if any(own for _, own in outputs):
        op.properties["res_attrs"] = ArrayAttr([DictionaryAttr(own) for _, own in outputs])


def print_signature(printer: Printer, op: Any) -> None:
    """Prints the name, the arguments and the results of a function or graph."""
    printer.print_string(" ")
    printer.print_symbol_name(op.sym_name.data)
    inputs, outputs = op.function_type.inputs.data, op.function_type.outputs.data
    own = op.arg_attrs.data if op.arg_attrs else (None,) * len(inputs)
    with printer.in_parens():
        if op.body.blocks:
            arguments = list(zip(op.body.blocks[0].args, own, strict=True))
            printer.print_list(arguments, lambda a: print_func_argument(printer, *a))
        else:
            declared = list(zip(inputs, own, strict=True))
            printer.print_list(declared, lambda a: print_func_output(printer, *a))
    if not outputs:
        return
    printer.print_string(" -> ")
    if op.res_attrs is None and len(outputs) == 1:
        printer.print_attribute(outputs[0])
        return
    own = op.res_attrs.data if op.res_attrs else (None,) * len(outputs)
    with printer.in_parens():
        results = list(zip(outputs, own, strict=True))
        printer.print_list(results, lambda r: print_func_output(printer, *r))


def _parse_argument(parser: Parser) -> _ARGUMENT:
    argument = parser.parse_optional_argument()
    type = parser.parse_type() if argument is None else argument.type
    own = parser.parse_optional_dictionary_attr_dict()
    parser.parse_optional_location()
    return argument, type, own


def _parse_outputs(parser: Parser) -> list[_OUTPUT]:
    if not parser.parse_optional_punctuation("->"):
        return []
    outputs = parser.parse_optional_comma_separated_list(
        parser.Delimiter.PAREN,
        lambda: (parser.parse_type(), parser.parse_optional_dictionary_attr_dict()),
    )
    return [(parser.parse_type(), {})] if outputs is None else list(outputs)


def set_attributes(op: SPIRVOp, attributes: Mapping[str, Attribute]) -> None:
    """
    Stores parsed attributes. An attribute that the operation declares as a property becomes a
    property.
    """
    declared = op.get_irdl_definition().properties
    for key, value in attributes.items():
        (op.properties if key in declared else op.attributes)[key] = value
