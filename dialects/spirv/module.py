"""
Defines the module operation, and the rules that need the whole module.

These rules look up symbols and the origins of pointers. They refer to operations by name, since
the modules of the operations' classes import this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, Region, SSAValue
from xdsl.irdl import opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, OptionalSymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.abi import VerCapExtAttr
from xdsl_spirv.dialects.spirv.attributes import AddressingModelAttr, MemoryModelAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.enums import (
    AddressingModel,
    Capability,
    CooperativeMatrixLayout,
    MemoryModel,
)
from xdsl_spirv.dialects.spirv.rules import cm_19_conversion, constant_integer
from xdsl_spirv.dialects.spirv.rules_types import refuse
from xdsl_spirv.dialects.spirv.types import (
    ArrayType,
    CooperativeMatrixType,
    PointerType,
    RuntimeArrayType,
    StructType,
)
from xdsl_spirv.upstream.isolated import Isolated
from xdsl_spirv.upstream.symbols import symbols_at_hand

MATRIX_ACCESSES = ("spirv.KHR.CooperativeMatrixLoad", "spirv.KHR.CooperativeMatrixStore")

CONVERSIONS = frozenset(
    f"spirv.{name}"
    for name in "ConvertFToU ConvertFToS ConvertSToF ConvertUToF UConvert SConvert FConvert".split()
)
USE_CONVERSIONS = frozenset(
    {Capability.CooperativeMatrixConversionsNV, Capability.CooperativeMatrixConversionsEXT}
)
"""Capabilities that allow conversions of an accumulator to a MatrixA or MatrixB."""

POINTER_USERS = frozenset(
    {
        "spirv.AccessChain",
        "spirv.CopyMemory",
        "spirv.CopyObject",
        "spirv.FunctionCall",
        "spirv.InBoundsAccessChain",
        "spirv.KHR.CooperativeMatrixLoad",
        "spirv.KHR.CooperativeMatrixStore",
        "spirv.Load",
        "spirv.Store",
    }
)
"""Operations that accept pointers under logical addressing (SPIR-V 2.16.1, CM-16)."""

POINTER_USER_PREFIXES = (
    "spirv.Atomic",
    "spirv.EXT.Atomic",
    "spirv.GL.",
    "spirv.ArrayLength",
    "spirv.Raw",
    "spirv.Decorate",
    "spirv.NV.",
)

POINTER_FORMERS = ("spirv.AccessChain", "spirv.InBoundsAccessChain")


def check_module(module: Operation) -> None:
    """
    Checks every rule that needs the module. Raises `VerifyException` with the rule's id.

    Rules that depend on declared capabilities are skipped if the module declares none.
    """
    constants = specialization_constants(module)
    triple = module.properties.get("vce_triple")
    declared = _declared_capabilities(triple)
    cm_02_vulkan_memory_model(module.properties.get("memory_model"), declared)
    logical = module.properties.get("addressing_model") == LOGICAL
    fixed_pointers = logical and triple is not None and declared.isdisjoint(VARIABLE_POINTERS)
    kernel = is_kernel(declared)
    seen: dict[int, Attribute] = {}
    for op in module.walk():
        for value in op.results:
            if id(value.type) not in seen:
                seen[id(value.type)] = value.type
                cm_05_constants(value.type, constants)
        for attribute in op.properties.values():
            if id(attribute) not in seen:
                seen[id(attribute)] = attribute
                cm_05_constants(attribute, constants)
        if triple is not None and declared.isdisjoint(USE_CONVERSIONS):
            cm_19_use(op)
        if op.name in MATRIX_ACCESSES:
            cm_11_layout_constant(op.properties.get("matrix_layout"), constants)
            if not kernel:
                cm_10_into_array(op.operands[0])
        if fixed_pointers and op.operands and not takes_pointers(op.name):
            cm_16_pointer_users(op)


LOGICAL = AddressingModelAttr(AddressingModel.Logical)
VULKAN = MemoryModelAttr(MemoryModel.Vulkan)
VARIABLE_POINTERS = frozenset(
    {
        Capability.VariablePointers,
        Capability.VariablePointersStorageBuffer,
        Capability.PhysicalStorageBufferAddresses,
    }
)


def is_kernel(declared: frozenset[Capability]) -> bool:
    """True for an OpenCL kernel module, which declares Kernel but not Shader."""
    return Capability.Kernel in declared and Capability.Shader not in declared


def _declared_capabilities(triple: Attribute | None) -> frozenset[Capability]:
    if not isinstance(triple, VerCapExtAttr):
        return frozenset()
    return frozenset(c.data for c in triple.capabilities)


def specialization_constants(module: Operation) -> Mapping[str, Attribute | None]:
    """
    Returns the default value of each specialization constant of a module, by symbol.

    For a constant that is computed from others, returns its type. Its value is only known at a
    launch.
    """
    constants: dict[str, Attribute | None] = {}
    # Constants are direct children of a module.
    for op in module.regions[0].block.ops:
        name = op.properties.get("sym_name")
        if not isinstance(name, StringAttr):
            continue
        if op.name == "spirv.SpecConstant":
            constants[name.data] = op.properties.get("default_value")
        elif op.name == "spirv.RawGlobal" and "type" in op.properties:
            constants[name.data] = op.properties["type"]
    return constants


MATRIX_CAPABILITIES = frozenset(
    {
        Capability.CooperativeMatrixKHR,
        Capability.BFloat16CooperativeMatrixKHR,
        Capability.Float8CooperativeMatrixEXT,
    }
)


def cm_02_vulkan_memory_model(
    memory_model: Attribute | None, declared: frozenset[Capability]
) -> None:
    """CM-02: a shader with cooperative matrices must have the Vulkan memory model."""
    if is_kernel(declared) or declared.isdisjoint(MATRIX_CAPABILITIES):
        return
    if Capability.VulkanMemoryModel not in declared:
        refuse(
            "CM-02",
            "a shader declares CooperativeMatrixKHR without VulkanMemoryModel",
            "declare VulkanMemoryModel, or run the pass spirv-update-vce without a triple",
        )
    if memory_model != VULKAN:
        refuse(
            "CM-02",
            "the memory model of a shader with cooperative matrices is not Vulkan",
            "write `spirv.module Logical Vulkan`",
        )


def cm_05_constants(attribute: Attribute, constants: Mapping[str, Attribute | None]) -> None:
    """CM-05: the symbols in a cooperative matrix type must be 32-bit specialization constants."""
    for matrix in cooperative_matrices(attribute):
        for what in ("rows", "columns", "scope"):
            symbol = getattr(matrix, what)
            if isinstance(symbol, SymbolRefAttr):
                _constant("CM-05", f"the {what} of {matrix}", symbol, constants)


def cooperative_matrices(attribute: Attribute) -> Iterator[CooperativeMatrixType]:
    """Yields every cooperative matrix type within a type."""
    waiting = [attribute]
    while waiting:
        attribute = waiting.pop()
        if not _has_parts(type(attribute)):
            continue
        if isinstance(attribute, CooperativeMatrixType):
            yield attribute
        if isinstance(attribute, ArrayAttr):
            waiting += attribute.data[::-1]
        elif isinstance(attribute, ParametrizedAttribute):
            waiting += attribute.parameters[::-1]


@cache
def _has_parts(kind: type[Attribute]) -> bool:
    return issubclass(kind, ArrayAttr | ParametrizedAttribute)


def _constant(
    rule: str, what: str, symbol: SymbolRefAttr, constants: Mapping[str, Attribute | None]
) -> int | None:
    """
    Returns the default of the 32-bit integer constant `symbol`. Returns None for a computed
    constant.
    """
    name = symbol.root_reference.data
    value = constants.get(name)
    type_ = value.type if isinstance(value, IntegerAttr) else value
    if not isinstance(type_, IntegerType) or type_.width.data != 32:
        mistake = f"is {value}" if name in constants else "does not exist"
        refuse(
            rule,
            f"{what} must come from a 32-bit integer constant, but @{name} {mistake}",
            f"declare `spirv.SpecConstant @{name} spec_id(0) = 16 : i32` in the module",
        )
    return value.value.data if isinstance(value, IntegerAttr) else None


def cm_19_use(op: Operation) -> None:
    """CM-19: a conversion of an accumulator to another use needs a capability."""
    if op.name in CONVERSIONS:
        cm_19_conversion(op.operands[0].type, op.results[0].type, uses=False)


def cm_11_layout_constant(
    layout: Attribute | None, constants: Mapping[str, Attribute | None]
) -> None:
    """CM-11: a layout's specialization constant must be a 32-bit integer, by default 0 or 1."""
    if not isinstance(layout, SymbolRefAttr):
        return
    default = _constant("CM-11", "the layout", layout, constants)
    allowed = (CooperativeMatrixLayout.RowMajorKHR, CooperativeMatrixLayout.ColumnMajorKHR)
    if default is not None and default not in allowed:
        refuse(
            "CM-11",
            f"the default of the layout {layout} is {default}, which is not a layout",
            "use 0 for row-major or 1 for column-major",
        )


def cm_10_into_array(pointer: SSAValue) -> None:
    """CM-10: in a shader, the pointer of a load or store must point into an array."""
    if points_into_array(pointer) is False:
        refuse(
            "CM-10",
            f"the pointer {pointer.type} does not point into an array",
            "form the pointer with spirv.AccessChain from an array's pointer",
        )


def points_into_array(pointer: SSAValue) -> bool | None:
    """True if the pointer points into an array. Returns None if its origin is unknown."""
    op = pointer.owner
    if not isinstance(op, Operation):
        return None
    if op.name in ("spirv.Variable", "spirv.mlir.addressof"):
        return False
    if op.name not in POINTER_FORMERS:
        return None
    base, *indices = op.operands
    type_ = base.type.pointee if isinstance(base.type, PointerType) else base.type
    for index in indices:
        if isinstance(type_, ArrayType | RuntimeArrayType):
            return True
        if not isinstance(type_, StructType) or not isinstance(type_.members, ArrayAttr):
            break
        number = constant_integer(index)
        if number is None or number >= len(type_.members):
            return None
        type_ = type_.members.data[number]
    return points_into_array(base)


@cache
def takes_pointers(name: str) -> bool:
    """True if an operation may have pointer operands under logical addressing."""
    ours = name.startswith("spirv.")
    return not ours or name in POINTER_USERS or name.startswith(POINTER_USER_PREFIXES)


def cm_16_pointer_users(op: Operation) -> None:
    """CM-16: under logical addressing, only memory accesses may use pointers."""
    for operand in op.operands:
        if isinstance(operand.type, PointerType):
            refuse(
                "CM-16",
                f"{op.name} cannot use the pointer {operand.type} under logical addressing",
                "load and store through the pointer, or declare VariablePointers",
            )


IN_A_MODULE = frozenset(
    f"spirv.{name}"
    for name in (
        "Constant ConstantNull Undef SpecConstant SpecConstantComposite SpecConstantOperation "
        "mlir.referenceof RawGlobal GlobalVariable func EntryPoint ExecutionMode "
        "KHR.UntypedGlobalVariable EXT.ConstantCompositeReplicate "
        "EXT.SpecConstantCompositeReplicate KHR.ConstantData KHR.SpecConstantData "
        "ARM.Graph ARM.GraphEntryPoint"
    ).split()
)
"""Names of operations that may be direct children of a module."""


class ModuleOp(SPIRVOp, name="spirv.module"):
    """
    A SPIR-V module, with the addressing and memory model of OpMemoryModel.

    `spirv.module @m Logical Vulkan requires #spirv.vce<v1.6, [Shader], []> { ... }`.
    """

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
        region = body if isinstance(body, Region) else Region(Block(body))
        super().__init__(addressing_model, memory_model, region, vce_triple, sym_name)

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
        """Verifies the module. Looks up the module's symbols only once."""
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


def modules_in(root: Operation) -> Iterator[ModuleOp]:
    """Yields every `spirv.module` of a program, in the text's order."""
    if isinstance(root, ModuleOp):
        yield root
        return
    for region in root.regions:
        for block in region.blocks:
            for op in block.ops:
                yield from modules_in(op)


def symbol_of(op: Operation) -> str | None:
    """Returns an operation's symbol name. Returns None if it has no symbol."""
    name = op.properties.get("sym_name")
    return name.data if isinstance(name, StringAttr) else None


def modules_by_name(root: Operation) -> dict[str | None, ModuleOp]:
    """
    Maps the symbol of each `spirv.module` of a program to the module. A module without a symbol has
    the key None.
    """
    return {symbol_of(module): module for module in modules_in(root)}
