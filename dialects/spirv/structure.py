"""
Entry points with their execution modes, and global variables.

The verifiers also check the operations that symbols name, such as an entry point's variables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
)
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, TypeAttribute
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    lazy_traits_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    UniqueBaseAttributeVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.abi import LinkageAttributesAttr
from xdsl_spirv.dialects.spirv.attributes import (
    EnumerationAttr,
    ExecutionModeAttr,
    ExecutionModelAttr,
    parse_integer,
)
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constants import ConstantSymbol, verify_lengths
from xdsl_spirv.dialects.spirv.enums import BuiltIn, ExecutionMode, ExecutionModel, StorageClass
from xdsl_spirv.dialects.spirv.function import FuncOp, set_attributes
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.rules import cm_07_storage
from xdsl_spirv.dialects.spirv.types import PointerType, UntypedPointerType
from xdsl_spirv.upstream.symbols import find_symbol, first_of

NOT_IN_A_MODULE = (StorageClass.Generic, StorageClass.Function)
"""Storage classes that global variables cannot have."""

KNOWS_ITS_DATA = (StorageClass.Private, StorageClass.Workgroup)
"""
Storage classes whose variables the module allocates. An untyped variable there needs a data type.
"""


@irdl_custom_directive
class Quoted(CustomDirective):
    """Syntax of an enumerant in quotation marks."""

    enumerant: UniqueBaseAttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        kind = cast(type[EnumerationAttr[Any]], self.enumerant.unique_base)
        self.enumerant.set(state, kind(kind.parse_quoted(parser)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        value = cast(EnumerationAttr[Any], self.enumerant.get(op))
        printer.print_string(f'"{value.spell(value.data)}"')


def print_number(printer: Printer, value: Attribute | None) -> None:
    """Prints a number without its type. Prints other attributes in full."""
    if isinstance(value, IntegerAttr):
        printer.print_int(value.value.data)
    elif value is not None:
        printer.print_attribute(value)


@irdl_custom_directive
class FurtherValues(CustomDirective):
    """Syntax of an optional list of numbers, symbols and types: `, 1, @x, i32`."""

    values: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        values: list[Attribute] = []
        while parser.parse_optional_punctuation(","):
            values.append(self.parse_one(parser))
        self.values.set(state, ArrayAttr(values))

    def parse_one(self, parser: Parser) -> Attribute:
        """Parses one value."""
        if symbol := parser.parse_optional_symbol_name():
            return SymbolRefAttr(symbol)
        return parser.parse_optional_type() or parse_integer(parser)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        for value in cast(ArrayAttr[Attribute], self.values.get(op)):
            printer.print_string(", ")
            print_number(printer, value)


@irdl_custom_directive
class FurtherSymbols(FurtherValues):
    """Syntax of an optional list of symbols: `, @a, @b`."""

    values: AttributeVariable

    def parse_one(self, parser: Parser) -> Attribute:
        return SymbolRefAttr(parser.parse_symbol_name())


class EntryPointOp(SPIRVOp):
    """
    OpEntryPoint: `spirv.EntryPoint "GLCompute" @main, @id, @buffer`.

    The entry point's name is the function's name, unless the attribute `entry_name` gives another
    name.
    """

    execution_model = prop_def(ExecutionModelAttr)
    fn = prop_def(FlatSymbolRefAttrConstr)
    interface = prop_def(ArrayAttr[SymbolRefAttr])
    traits = lazy_traits_def(lambda: (HasParent(ModuleOp, BuiltinModuleOp),))
    custom_directives = (Quoted, FurtherSymbols)
    assembly_format = (
        "custom<Quoted>($execution_model) $fn custom<FurtherSymbols>($interface) attr-dict"
    )

    def __init__(self, execution_model: ExecutionModel, fn: str, interface: Sequence[str] = ()):
        super().__init__(execution_model, fn, interface)

    def verify_(self) -> None:
        if self.parent_op() is None:
            return
        self._verify_unique()
        function = find_symbol(self, self.fn)
        if not isinstance(function, FuncOp):
            raise VerifyException(f"{self.fn} is not a spirv.func of this module")
        given = function.function_type.inputs.data or function.function_type.outputs.data
        if given and self.execution_model.data != ExecutionModel.Kernel:
            raise VerifyException(
                f"the entry point {self.fn} must have no arguments or results: use global variables"
            )
        for name in self.interface:
            if not isinstance(find_symbol(self, name), ModuleVariable):
                raise VerifyException(f"{name} is not a spirv.GlobalVariable of this module")

    def _verify_unique(self) -> None:
        key = {("execution_model", self.execution_model), ("fn", self.fn)}
        name = self.attributes.get("entry_name")
        first = first_of(self, (EntryPointOp.name, self.execution_model, self.fn, name))
        earlier = self.prev_op if first is None else None if first is self else first
        while earlier is not None:
            if (
                isinstance(earlier, EntryPointOp)
                and earlier.properties.items() >= key
                and earlier.attributes.get("entry_name") == name
            ):
                raise VerifyException(
                    f"two entry points have the model {self.execution_model.data.name} "
                    f"and the name {self.fn.root_reference.data}"
                )
            earlier = earlier.prev_op


class ExecutionModeOp(SPIRVOp):
    """
    OpExecutionMode: `spirv.ExecutionMode @main "LocalSize", 32, 1, 1`.

    In OpExecutionModeId, an operand may be a specialization constant's `@name`, or a type:
    `spirv.ExecutionMode @main "LocalSizeId", @x, 1, 1`.
    """

    fn = prop_def(FlatSymbolRefAttrConstr)
    execution_mode = prop_def(ExecutionModeAttr)
    values = prop_def(ArrayAttr[IntegerAttr | SymbolRefAttr | TypeAttribute])
    traits = lazy_traits_def(lambda: (HasParent(ModuleOp, BuiltinModuleOp),))
    custom_directives = (Quoted, FurtherValues)
    assembly_format = "$fn custom<Quoted>($execution_mode) custom<FurtherValues>($values) attr-dict"

    def __init__(
        self, fn: str, execution_mode: ExecutionMode, values: Sequence[int | Attribute] = ()
    ):
        super().__init__(fn, execution_mode, values)

    def verify_(self) -> None:
        if self.parent_op() is None:
            return
        if not isinstance(find_symbol(self, self.fn), FuncOp):
            raise VerifyException(f"{self.fn} is not a spirv.func of this module")
        if self.execution_mode.data == ExecutionMode.LocalSize and len(self.values) != 3:
            raise VerifyException(
                f"LocalSize needs 3 numbers (x, y, z), not {len(self.values)}: "
                "write 1 for an unused dimension"
            )


class ModuleVariable(SPIRVOp, ABC):
    """A global variable, with the decorations of its binding."""

    sym_name = prop_def(SymbolNameConstraint())
    initializer = opt_prop_def(FlatSymbolRefAttrConstr)
    interface_location = opt_prop_def(IntegerAttr, prop_name="location")
    binding = opt_prop_def(IntegerAttr)
    descriptor_set = opt_prop_def(IntegerAttr)
    built_in = opt_prop_def(StringAttr)
    linkage_attributes = opt_prop_def(LinkageAttributesAttr)
    traits = lazy_traits_def(lambda: (SymbolOpInterface(), HasParent(ModuleOp, BuiltinModuleOp)))

    @property
    @abstractmethod
    def pointer_type(self) -> PointerType | UntypedPointerType:
        """The type of the pointer to the variable."""

    @property
    @abstractmethod
    def object_type(self) -> Attribute | None:
        """The type of the variable's value. None for an untyped variable without a data type."""

    @property
    def storage_class(self) -> StorageClass:
        """The storage class of the variable."""
        return self.pointer_type.storage_class.data

    @classmethod
    def _parse_placement(cls, parser: Parser) -> dict[str, Attribute]:
        placement: dict[str, Attribute] = {}
        if parser.parse_optional_keyword("initializer"):
            with parser.in_parens():
                placement["initializer"] = SymbolRefAttr(parser.parse_symbol_name())
        if parser.parse_optional_keyword("bind"):
            with parser.in_parens():
                placement["descriptor_set"] = parse_integer(parser)
                parser.parse_punctuation(",")
                placement["binding"] = parse_integer(parser)
        if parser.parse_optional_keyword("built_in"):
            with parser.in_parens():
                placement["built_in"] = StringAttr(parser.parse_str_literal())
        return placement

    def _print_placement(self, printer: Printer, *hidden: str) -> None:
        unseen = {"sym_name", "type", "initializer", "built_in", *hidden}
        if self.initializer is not None:
            printer.print_string(" initializer(")
            printer.print_attribute(self.initializer)
            printer.print_string(")")
        if self.descriptor_set is not None and self.binding is not None:
            unseen |= {"descriptor_set", "binding"}
            numbers = (self.descriptor_set.value.data, self.binding.value.data)
            printer.print_string(f" bind({numbers[0]}, {numbers[1]})")
        if self.built_in is not None:
            printer.print_string(f' built_in("{self.built_in.data}")')
        shown = {k: v for k, v in self.properties.items() if k not in unseen} | self.attributes
        printer.print_op_attributes(shown)
        printer.print_string(" : ")
        printer.print_attribute(self.pointer_type)

    def verify_(self) -> None:
        held = self.object_type
        if held is not None:
            cm_07_storage(held, self.storage_class)
            verify_lengths(self, held)
        if self.storage_class in NOT_IN_A_MODULE:
            raise VerifyException(
                f"a global variable cannot be in {self.storage_class.name}: "
                "use spirv.Variable in a function"
            )
        if self.built_in is not None and self.built_in.data not in BuiltIn.__members__:
            raise VerifyException(f"{self.built_in.data!r} is not a built-in variable of SPIR-V")
        if self.initializer is None or self.parent_op() is None:
            return
        source = find_symbol(self, self.initializer)
        if isinstance(source, ModuleVariable):
            given: Attribute = source.pointer_type
        elif isinstance(source, ConstantSymbol):
            given = source.constant_type
        else:
            raise VerifyException(
                f"the initializer {self.initializer} must be a specialization constant or global "
                "variable"
            )
        if given != held:
            raise VerifyException(
                f"the initializer {self.initializer} has type {given}, "
                f"but the variable holds {held}"
            )


class GlobalVariableOp(ModuleVariable):
    """
    OpVariable of a module.

    `spirv.GlobalVariable @x bind(0, 1) : !spirv.ptr<!spirv.struct<...>, StorageBuffer>`,
    `spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>`,
    `spirv.GlobalVariable @y initializer(@c) : !spirv.ptr<f32, Private>`.
    """

    type = prop_def(PointerType)

    def __init__(
        self,
        sym_name: str,
        type: PointerType,
        bind: tuple[int, int] | None = None,
        built_in: BuiltIn | None = None,
        initializer: str | None = None,
    ):
        """Creates a variable. `bind` is the pair of descriptor set and binding."""
        super().__init__(
            sym_name=sym_name,
            type=type,
            descriptor_set=bind and bind[0],
            binding=bind and bind[1],
            built_in=None if built_in is None else built_in.name,
            initializer=initializer,
        )

    @property
    def pointer_type(self) -> PointerType:
        return self.type

    @property
    def object_type(self) -> Attribute:
        return self.type.pointee

    @classmethod
    def parse(cls, parser: Parser) -> GlobalVariableOp:
        name = parser.parse_symbol_name().data
        properties = cls._parse_placement(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        type = parser.parse_type()
        if not isinstance(type, PointerType):
            parser.raise_error(f"expected a !spirv.ptr, got {type}", start, parser.pos)
        op = cls(name, type)
        op.properties |= properties
        set_attributes(op, attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        self._print_placement(printer)


class UntypedGlobalVariableOp(ModuleVariable, name="spirv.KHR.UntypedGlobalVariable"):
    """
    OpUntypedVariableKHR of a module, with an optional data type.

    `spirv.KHR.UntypedGlobalVariable @x !spirv.struct<...> bind(0, 1) :
    !spirv.untyped_ptr<StorageBuffer>`. SPV_KHR_untyped_pointers.
    """

    type = prop_def(UntypedPointerType)
    data_type = opt_prop_def(TypeAttribute)

    def __init__(
        self,
        sym_name: str,
        type: UntypedPointerType,
        data_type: TypeAttribute | None = None,
        bind: tuple[int, int] | None = None,
        initializer: str | None = None,
    ):
        """Creates a variable. `bind` is the pair of descriptor set and binding."""
        super().__init__(
            sym_name=sym_name,
            type=type,
            data_type=data_type,
            descriptor_set=bind and bind[0],
            binding=bind and bind[1],
            initializer=initializer,
        )

    @property
    def pointer_type(self) -> UntypedPointerType:
        return self.type

    @property
    def object_type(self) -> Attribute | None:
        return self.data_type

    @classmethod
    def parse(cls, parser: Parser) -> UntypedGlobalVariableOp:
        name = parser.parse_symbol_name().data
        data_type = parser.parse_optional_type()
        properties = cls._parse_placement(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        type = parser.parse_type()
        if not isinstance(type, UntypedPointerType):
            parser.raise_error(f"expected a !spirv.untyped_ptr, got {type}", start, parser.pos)
        op = cls(name, type, data_type)
        op.properties |= properties
        set_attributes(op, attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.data_type is not None:
            printer.print_string(" ")
            printer.print_attribute(self.data_type)
        self._print_placement(printer, "data_type")

    def verify_(self) -> None:
        super().verify_()
        if self.data_type is None and self.storage_class in KNOWS_ITS_DATA:
            raise VerifyException(
                f"an untyped variable in {self.storage_class.name} must have a data type"
            )
        if self.data_type is None and self.initializer is not None:
            raise VerifyException("a variable with an initializer must have a data type")


class AddressOfOp(SPIRVOp, name="spirv.mlir.addressof"):
    """A pointer to a global variable: `spirv.mlir.addressof @x : !spirv.ptr<f32, Private>`."""

    variable = prop_def(FlatSymbolRefAttrConstr)
    result = result_def(BaseAttr(PointerType) | BaseAttr(UntypedPointerType))
    traits = traits_def(Pure())
    assembly_format = "$variable attr-dict `:` type($result)"

    def __init__(
        self,
        variable: str | ModuleVariable,
        result_type: PointerType | UntypedPointerType | None = None,
    ):
        """
        Creates a pointer to a variable. `result_type` is required if `variable` is only a name.
        """
        if isinstance(variable, ModuleVariable):
            result_type = variable.pointer_type
            variable = variable.sym_name.data
        if result_type is None:
            raise ValueError("spirv.mlir.addressof: result_type is required if variable is a name")
        super().__init__(variable, result_type)

    def verify_(self) -> None:
        if self.parent_op() is None:
            return
        variable = find_symbol(self, self.variable)
        if not isinstance(variable, ModuleVariable):
            raise VerifyException(f"{self.variable} is not a spirv.GlobalVariable of this module")
        if variable.pointer_type != self.result.type:
            raise VerifyException(
                f"{self.variable} has type {variable.pointer_type}, "
                f"but the result has type {self.result.type}"
            )


def entry_points(module: ModuleOp) -> list[EntryPointOp]:
    """Returns the entry points of a module, in order."""
    return [op for op in module.body.block.ops if isinstance(op, EntryPointOp)]
