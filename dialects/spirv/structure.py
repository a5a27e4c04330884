"""
A module, its functions, entry points and global variables.

A function of a module takes and gives values; everything else it knows by symbols. The verifier
checks what needs more than one operation: symbols, the interface of entry points, where operations
may stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    i32,
)
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.dialects.utils import print_func_argument, print_func_output
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import (
    irdl_op_definition,
    lazy_traits_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    CallableOpInterface,
    HasParent,
    IsolatedFromAbove,
    NoTerminator,
    OptionalSymbolOpInterface,
    Pure,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.abi import LinkageAttributesAttr, VerCapExtAttr
from xdsl_spirv.dialects.spirv.attributes import (
    AddressingModelAttr,
    ExecutionModeAttr,
    ExecutionModelAttr,
    FunctionControlAttr,
    MemoryModelAttr,
    parse_integer,
)
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constants import (
    SpecConstantCompositeOp,
    SpecConstantOp,
    find_symbol,
    verify_lengths,
)
from xdsl_spirv.dialects.spirv.enums import (
    AddressingModel,
    BuiltIn,
    ExecutionMode,
    ExecutionModel,
    FunctionControl,
    MemoryModel,
    StorageClass,
)
from xdsl_spirv.dialects.spirv.rules import cm_07_storage
from xdsl_spirv.dialects.spirv.rules_module import check_module
from xdsl_spirv.dialects.spirv.types import PointerType

IN_A_MODULE = frozenset(
    f"spirv.{name}"
    for name in (
        "Constant ConstantNull Undef SpecConstant SpecConstantComposite SpecConstantOperation "
        "mlir.referenceof GlobalVariable func EntryPoint ExecutionMode"
    ).split()
)
"""What may stand directly in a module."""

NOT_IN_A_MODULE = (StorageClass.Generic, StorageClass.Function)
"""The storage classes that a variable of a module cannot have."""


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
    traits = traits_def(
        IsolatedFromAbove(), NoTerminator(), SymbolTable(), OptionalSymbolOpInterface()
    )

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

    def verify_(self) -> None:
        if self.body.block.args:
            raise VerifyException("a spirv.module takes no arguments")
        for op in self.body.block.ops:
            if op.name not in IN_A_MODULE:
                raise VerifyException(
                    f"{op.name} cannot stand directly in a spirv.module: only constants, global "
                    "variables, functions, entry points and execution modes can"
                )
        met: set[tuple[ExecutionModel, str]] = set()
        for entry in entry_points(self):
            key = (entry.execution_model.data, entry.fn.root_reference.data)
            if key in met:
                raise VerifyException(
                    f"two entry points have the model {key[0].name} and the name {key[1]}"
                )
            met.add(key)
        check_module(self)


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


@irdl_op_definition
class FuncOp(SPIRVOp):
    """
    OpFunction: `spirv.func @f(%x: f32) -> f32 "Inline" { ... }`.

    Without a body it is declared here and defined in another module: it then needs
    `linkage_attributes`.
    """

    name = "spirv.func"
    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    function_control = prop_def(FunctionControlAttr)
    linkage_attributes = opt_prop_def(LinkageAttributesAttr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def()
    traits = lazy_traits_def(
        lambda: (
            IsolatedFromAbove(),
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
        """Without `body`, the function has one empty block that takes the arguments."""
        if isinstance(function_type, tuple):
            function_type = FunctionType.from_lists(*function_type)
        if body is None:
            body = Region(Block(arg_types=function_type.inputs))
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "function_type": function_type,
                "function_control": FunctionControlAttr(function_control),
                "linkage_attributes": linkage_attributes,
            },
            regions=[body],
        )

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        name = parser.parse_symbol_name().data
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _parse_argument(parser)
        )
        outputs = _parse_outputs(parser)
        control = FunctionControlAttr.parse_quoted(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        named = [argument for argument, _, _ in arguments if argument is not None]
        if named and len(named) != len(arguments):
            parser.raise_error("name all arguments of a function, or none")
        body = parser.parse_optional_region(named or None) or Region()
        inputs = [type for _, type, _ in arguments]
        op = cls(name, (inputs, [type for type, _ in outputs]), body, control)
        if any(own for _, _, own in arguments):
            op.arg_attrs = ArrayAttr([DictionaryAttr(own) for _, _, own in arguments])
        if any(own for _, own in outputs):
            op.res_attrs = ArrayAttr([DictionaryAttr(own) for _, own in outputs])
        if attributes is not None:
            set_attributes(op, attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        inputs = self.function_type.inputs.data
        own = self.arg_attrs.data if self.arg_attrs else (None,) * len(inputs)
        with printer.in_parens():
            if self.body.blocks:
                arguments = list(zip(self.body.blocks[0].args, own, strict=True))
                printer.print_list(arguments, lambda a: print_func_argument(printer, *a))
            else:
                declared = list(zip(inputs, own, strict=True))
                printer.print_list(declared, lambda a: print_func_output(printer, *a))
        self._print_outputs(printer)
        control = self.function_control
        printer.print_string(f' "{control.spell(control.data)}"')
        hidden = {"sym_name", "function_type", "function_control", "arg_attrs", "res_attrs"}
        shown = {k: v for k, v in self.properties.items() if k not in hidden} | self.attributes
        printer.print_op_attributes(shown, print_keyword=True)
        if self.body.blocks:
            printer.print_string(" ")
            printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def _print_outputs(self, printer: Printer) -> None:
        outputs = self.function_type.outputs.data
        if not outputs:
            return
        printer.print_string(" -> ")
        if self.res_attrs is None and len(outputs) == 1:
            printer.print_attribute(outputs[0])
            return
        own = self.res_attrs.data if self.res_attrs else (None,) * len(outputs)
        with printer.in_parens():
            results = list(zip(outputs, own, strict=True))
            printer.print_list(results, lambda r: print_func_output(printer, *r))

    @property
    def result_type(self) -> Attribute | None:
        """What the function gives, None for nothing."""
        outputs = self.function_type.outputs.data
        return outputs[0] if outputs else None

    def verify_(self) -> None:
        if len(self.function_type.outputs) > 1:
            raise VerifyException(
                "a SPIR-V function gives at most one value: give several as a spirv.struct"
            )
        for own, types in (
            (self.arg_attrs, self.function_type.inputs),
            (self.res_attrs, self.function_type.outputs),
        ):
            if own is not None and len(own) != len(types):
                raise VerifyException(
                    f"{len(own)} attribute dictionaries for {len(types)} arguments or results"
                )
        if not self.body.blocks:
            if self.linkage_attributes is None and isinstance(self.parent_op(), ModuleOp):
                raise VerifyException(
                    "a function without a body comes from another module: "
                    "say from where by linkage_attributes, or give it a body"
                )
            return
        arguments = self.body.blocks[0].arg_types
        if tuple(arguments) != self.function_type.inputs.data:
            raise VerifyException(
                "the entry block's arguments must have the types of the function's inputs"
            )
        if not isinstance(self.parent_op(), ModuleOp):
            return
        for op in self.body.walk():
            if not op.name.startswith("spirv."):
                raise VerifyException(
                    f"{op.name} cannot be in a function of a spirv.module: lower it to spirv first"
                )


def _parse_argument(parser: Parser) -> _ARGUMENT:
    """`%x: f32 {...}`, or `f32 {...}` in a declaration."""
    argument = parser.parse_optional_argument()
    type = parser.parse_type() if argument is None else argument.type
    own = parser.parse_optional_dictionary_attr_dict()
    parser.parse_optional_location()
    return argument, type, own


def _parse_outputs(parser: Parser) -> list[tuple[Attribute, dict[str, Attribute]]]:
    """`-> f32`, `-> (f32 {...})`, `-> ()` or nothing."""
    if not parser.parse_optional_punctuation("->"):
        return []
    outputs = parser.parse_optional_comma_separated_list(
        parser.Delimiter.PAREN,
        lambda: (parser.parse_type(), parser.parse_optional_dictionary_attr_dict()),
    )
    return [(parser.parse_type(), {})] if outputs is None else list(outputs)


def set_attributes(op: SPIRVOp, attributes: Mapping[str, Attribute]) -> None:
    """Entries of a custom form's dictionary: properties where the operation has such, else free."""
    declared = op.get_irdl_definition().properties
    for key, value in attributes.items():
        (op.properties if key in declared else op.attributes)[key] = value


@irdl_op_definition
class EntryPointOp(SPIRVOp):
    """
    OpEntryPoint: `spirv.EntryPoint "GLCompute" @main, @id, @buffer`.

    The name of the entry point is the function's.
    """

    name = "spirv.EntryPoint"
    execution_model = prop_def(ExecutionModelAttr)
    fn = prop_def(FlatSymbolRefAttrConstr)
    interface = prop_def(ArrayAttr[SymbolRefAttr])
    traits = lazy_traits_def(lambda: (HasParent(ModuleOp, BuiltinModuleOp),))

    def __init__(self, execution_model: ExecutionModel, fn: str, interface: Sequence[str] = ()):
        super().__init__(
            properties={
                "execution_model": ExecutionModelAttr(execution_model),
                "fn": SymbolRefAttr(fn),
                "interface": ArrayAttr([SymbolRefAttr(name) for name in interface]),
            }
        )

    @classmethod
    def parse(cls, parser: Parser) -> EntryPointOp:
        model = ExecutionModelAttr.parse_quoted(parser)
        fn = parser.parse_symbol_name().data
        interface: list[str] = []
        while parser.parse_optional_punctuation(","):
            interface.append(parser.parse_symbol_name().data)
        op = cls(model, fn, interface)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{self.execution_model.spell(self.execution_model.data)}" ')
        printer.print_list([self.fn, *self.interface], printer.print_attribute)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if self.parent_op() is None:
            return
        function = find_symbol(self, self.fn)
        if not isinstance(function, FuncOp):
            raise VerifyException(f"{self.fn} is not a spirv.func of this module")
        if function.function_type.inputs.data or function.function_type.outputs.data:
            raise VerifyException(
                f"the entry point {self.fn} must take and give nothing: "
                "use global variables for its inputs and outputs"
            )
        for name in self.interface:
            if not isinstance(find_symbol(self, name), GlobalVariableOp):
                raise VerifyException(f"{name} is not a spirv.GlobalVariable of this module")


@irdl_op_definition
class ExecutionModeOp(SPIRVOp):
    """OpExecutionMode: `spirv.ExecutionMode @main "LocalSize", 32, 1, 1`."""

    name = "spirv.ExecutionMode"
    fn = prop_def(FlatSymbolRefAttrConstr)
    execution_mode = prop_def(ExecutionModeAttr)
    values = prop_def(ArrayAttr[IntegerAttr])
    traits = lazy_traits_def(lambda: (HasParent(ModuleOp, BuiltinModuleOp),))

    def __init__(self, fn: str, execution_mode: ExecutionMode, values: Sequence[int] = ()):
        super().__init__(
            properties={
                "fn": SymbolRefAttr(fn),
                "execution_mode": ExecutionModeAttr(execution_mode),
                "values": ArrayAttr([IntegerAttr(value, i32) for value in values]),
            }
        )

    @classmethod
    def parse(cls, parser: Parser) -> ExecutionModeOp:
        fn = parser.parse_symbol_name().data
        mode = ExecutionModeAttr.parse_quoted(parser)
        values: list[int] = []
        while parser.parse_optional_punctuation(","):
            values.append(parse_integer(parser).value.data)
        op = cls(fn, mode, values)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.fn)
        printer.print_string(f' "{self.execution_mode.spell(self.execution_mode.data)}"')
        for value in self.values:
            printer.print_string(f", {value.value.data}")
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if self.parent_op() is None:
            return
        if not isinstance(find_symbol(self, self.fn), FuncOp):
            raise VerifyException(f"{self.fn} is not a spirv.func of this module")
        if self.execution_mode.data == ExecutionMode.LocalSize and len(self.values) != 3:
            raise VerifyException(
                f"LocalSize has 3 numbers (x, y, z), not {len(self.values)}: "
                "write 1 for an unused dimension"
            )


@irdl_op_definition
class GlobalVariableOp(SPIRVOp):
    """
    OpVariable of a module, with the decorations that say what it is bound to.

    `spirv.GlobalVariable @x bind(0, 1) : !spirv.ptr<!spirv.struct<...>, StorageBuffer>`,
    `spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>`,
    `spirv.GlobalVariable @y initializer(@c) : !spirv.ptr<f32, Private>`.
    """

    name = "spirv.GlobalVariable"
    sym_name = prop_def(SymbolNameConstraint())
    type = prop_def(PointerType)
    initializer = opt_prop_def(FlatSymbolRefAttrConstr)
    interface_location = opt_prop_def(IntegerAttr, prop_name="location")
    binding = opt_prop_def(IntegerAttr)
    descriptor_set = opt_prop_def(IntegerAttr)
    built_in = opt_prop_def(StringAttr)
    linkage_attributes = opt_prop_def(LinkageAttributesAttr)
    traits = lazy_traits_def(lambda: (SymbolOpInterface(), HasParent(ModuleOp, BuiltinModuleOp)))

    def __init__(
        self,
        sym_name: str,
        type: PointerType,
        bind: tuple[int, int] | None = None,
        built_in: BuiltIn | None = None,
        initializer: str | None = None,
    ):
        """`bind` is the descriptor set and the binding."""
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "type": type,
                "descriptor_set": None if bind is None else IntegerAttr(bind[0], i32),
                "binding": None if bind is None else IntegerAttr(bind[1], i32),
                "built_in": None if built_in is None else StringAttr(built_in.name),
                "initializer": None if initializer is None else SymbolRefAttr(initializer),
            }
        )

    @property
    def storage_class(self) -> StorageClass:
        """The storage class of the variable."""
        return self.type.storage_class.data

    @classmethod
    def parse(cls, parser: Parser) -> GlobalVariableOp:
        name = parser.parse_symbol_name().data
        initializer = bind = built_in = None
        if parser.parse_optional_keyword("initializer"):
            with parser.in_parens():
                initializer = parser.parse_symbol_name().data
        if parser.parse_optional_keyword("bind"):
            with parser.in_parens():
                descriptor_set = parse_integer(parser).value.data
                parser.parse_punctuation(",")
                bind = (descriptor_set, parse_integer(parser).value.data)
        if parser.parse_optional_keyword("built_in"):
            with parser.in_parens():
                built_in = parser.parse_str_literal()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        type = parser.parse_type()
        if not isinstance(type, PointerType):
            parser.raise_error(f"expected a !spirv.ptr, got {type}", start, parser.pos)
        op = cls(name, type, bind, None, initializer)
        if built_in is not None:
            op.built_in = StringAttr(built_in)
        set_attributes(op, attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        hidden = {"sym_name", "type", "initializer", "built_in"}
        if self.initializer is not None:
            printer.print_string(" initializer(")
            printer.print_attribute(self.initializer)
            printer.print_string(")")
        if self.descriptor_set is not None and self.binding is not None:
            hidden |= {"descriptor_set", "binding"}
            numbers = (self.descriptor_set.value.data, self.binding.value.data)
            printer.print_string(f" bind({numbers[0]}, {numbers[1]})")
        if self.built_in is not None:
            printer.print_string(f' built_in("{self.built_in.data}")')
        shown = {k: v for k, v in self.properties.items() if k not in hidden} | self.attributes
        printer.print_op_attributes(shown)
        printer.print_string(" : ")
        printer.print_attribute(self.type)

    def verify_(self) -> None:
        cm_07_storage(self.type.pointee, self.storage_class)
        verify_lengths(self, self.type.pointee)
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
        if not isinstance(source, SpecConstantOp | SpecConstantCompositeOp | GlobalVariableOp):
            raise VerifyException(
                f"the initializer {self.initializer} must be a specialization constant or another "
                "global variable of the module"
            )
        if source.type != self.type.pointee:
            raise VerifyException(
                f"the initializer {self.initializer} has type {source.type}, "
                f"but the variable holds {self.type.pointee}"
            )


@irdl_op_definition
class AddressOfOp(SPIRVOp):
    """The pointer to a global variable: `spirv.mlir.addressof @x : !spirv.ptr<f32, Private>`."""

    name = "spirv.mlir.addressof"
    variable = prop_def(FlatSymbolRefAttrConstr)
    result = result_def(PointerType)
    traits = traits_def(Pure())
    assembly_format = "$variable attr-dict `:` type($result)"

    def __init__(self, variable: str | GlobalVariableOp, result_type: PointerType | None = None):
        """`result_type` is needed where only the variable's name is given."""
        if isinstance(variable, GlobalVariableOp):
            result_type = variable.type
            variable = variable.sym_name.data
        if result_type is None:
            raise ValueError("spirv.mlir.addressof: a variable's name alone needs a result_type")
        super().__init__(
            properties={"variable": SymbolRefAttr(variable)}, result_types=[result_type]
        )

    def verify_(self) -> None:
        if self.parent_op() is None:
            return
        variable = find_symbol(self, self.variable)
        if not isinstance(variable, GlobalVariableOp):
            raise VerifyException(f"{self.variable} is not a spirv.GlobalVariable of this module")
        if variable.type != self.result.type:
            raise VerifyException(
                f"{self.variable} has type {variable.type}, "
                f"but the result is declared {self.result.type}"
            )


def entry_points(module: ModuleOp) -> list[EntryPointOp]:
    """The entry points of a module, in order."""
    return [op for op in module.body.block.ops if isinstance(op, EntryPointOp)]


OPERATIONS: list[type[Operation]] = [
    ModuleOp,
    FuncOp,
    EntryPointOp,
    ExecutionModeOp,
    GlobalVariableOp,
    AddressOfOp,
]
