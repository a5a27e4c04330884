"""
Encodes a `spirv.module` as a SPIR-V binary.

The grammar determines the words of an ordinary operation (`operations.py`). Handwritten code exists
only for the parts that are more than one instruction: sections, symbols, types and constants,
functions and their blocks. Ids are dense and given in the order of first use, so a module always
gives the same bytes.

Some operations have no instruction in their block: constants, references to symbols, results of
structured control flow. When the id of such a value is first requested, its definition is written
into the section of types and constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    FileLineColLoc,
    FloatAttr,
    FusedLoc,
    IntegerAttr,
    IntegerType,
    NameLoc,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.structure import FuncOp, ModuleOp
from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.encode import SPIRVEncodeError
from xdsl_spirv.serialization.encode.functions import FunctionEncoder
from xdsl_spirv.serialization.encode.operations import Encode, encoder_of, instruction_for, integers
from xdsl_spirv.serialization.encode.types import (
    BLOCK_CLASSES,
    ConstantTable,
    Declarations,
    Decorations,
    Ids,
    TypeTable,
    scalar_words,
)
from xdsl_spirv.serialization.raw.words import ModuleWords, Section, string_words

if TYPE_CHECKING:
    from xdsl_spirv.serialization.encode.carried import Carrier
    from xdsl_spirv.serialization.encode.origins import Origins

INTERFACE_OF_ALL = (1, 4)
"""
First version of SPIR-V in which an entry point's interface lists variables of all storage classes.
Before, it lists only Input and Output (SPIR-V, OpEntryPoint).
"""


SYMBOLIC_CONSTANTS = {
    "spirv.SpecConstantComposite": "constituents",
    "spirv.EXT.SpecConstantCompositeReplicate": "constituent",
    "spirv.KHR.SpecConstantData": "data",
}
"""
Maps an operation that declares a composite constant to the property with its constituents or words.
"""


def encode(module: ModuleOp, *, names: bool = False, lines: bool = False) -> bytes:
    """
    Encodes the `spirv.module` of a program as a binary.

    If `names` is set, emits OpName for symbols and named values. If `lines` is set, emits OpLine
    for source positions. Raises `SPIRVEncodeError` at the first operation that has no SPIR-V form.
    """
    try:
        return ModuleEncoder(module, names=names, lines=lines).encode()
    except OverflowError as error:
        raise SPIRVEncodeError(str(error), module) from error


class ModuleEncoder:
    """Encodes one module. Implements the interfaces `IdSource` and `Module`."""

    def __init__(
        self, module: ModuleOp, *, names: bool, lines: bool, origins: Origins | None = None
    ):
        self.module = module
        self.names = names
        self.lines = lines
        self.origins = origins
        self.traced = origins is not None
        self.words = ModuleWords()
        self.ids = Ids()
        self.decorations = Decorations(self.words, self.operand)
        declarations = Declarations(self.words, self.ids)
        self.types = TypeTable(declarations, self.decorations, self.operand, self._carried_type)
        self.constants = ConstantTable(declarations, self.types, self.symbol)
        if names:
            self.types.name = self._name
        self.declarations = declarations
        self.values: dict[int, int] = {}
        self.encoders: dict[type[Operation], Encode] = {}
        self._symbols = {
            name.data: op
            for op in module.body.ops
            if isinstance(name := op.properties.get("sym_name"), StringAttr)
        }
        self._symbol_ids: dict[str, int] = {}
        self._defining: set[str] = set()
        self._reserved: dict[str, int] = {}
        """Ids of symbols that are used before their definition is encoded."""
        self._extended_sets: dict[str, int] = {}
        self._files: dict[str, int] = {}
        self._named: set[int] = set()
        self._uses: dict[str, set[str]] = {}
        """Maps a function to the symbols that it refers to."""
        self._in_use: set[str] = set()
        # Keyed by name, since importing the classes takes time and most modules need few of them.
        self._without_instruction: dict[str, Callable[[SSAValue, Operation], int]] = {
            "spirv.Constant": lambda v, op: self.constants.id(op.properties["value"], v.type, op),
            "spirv.ConstantNull": lambda v, op: self.constants.null(v.type, op),
            "spirv.Undef": lambda v, op: self.constants.undefined(v.type, op),
            "spirv.EXT.ConstantCompositeReplicate": self._replicated,
            "spirv.KHR.ConstantData": lambda v, op: self._constant_words(v, op, "data"),
            "spirv.ARM.GraphConstant": lambda v, op: self._constant_words(
                v, op, "graph_constant_id"
            ),
            "spirv.mlir.addressof": lambda _, op: self._referenced(op.properties["variable"], op),
            "spirv.mlir.referenceof": lambda _, op: self._referenced(
                op.properties["spec_const"], op
            ),
            "spirv.SpecConstantOperation": self._spec_constant_operation,
            "spirv.mlir.selection": self._merged,
            "spirv.mlir.loop": self._merged,
        }
        self._definitions: dict[str, Callable[[Operation], int]] = {
            "spirv.GlobalVariable": self._global_variable,
            "spirv.KHR.UntypedGlobalVariable": self._untyped_variable,
            "spirv.SpecConstant": self._spec_constant,
            **dict.fromkeys(SYMBOLIC_CONSTANTS, self._symbolic_constant),
            "spirv.RawGlobal": self._carried_definition,
        }
        # Bound here, because these methods are called most often.
        self.type = self.types.id
        self.void = self.types.void
        self.fresh = self.ids.fresh

    def encode(self) -> bytes:
        version = self._declare_triple()
        self._memory_model()
        entry_points: list[spv.EntryPointOp] = []
        graph_entry_points: list[Operation] = []
        for op in self.module.body.ops:
            match op:
                case FuncOp():
                    self._function(op)
                case spv.EntryPointOp():
                    entry_points.append(op)
                case spv.ExecutionModeOp():
                    self._execution_mode(op)
                case _ if op.name == "spirv.ARM.Graph":
                    self._graph(op)
                case _ if op.name == "spirv.ARM.GraphEntryPoint":
                    graph_entry_points.append(op)
                case _ if op.name == "spirv.RawGlobal" and "sym_name" not in op.properties:
                    self._carried_global(op, None)
                case _ if op.name in self._definitions:
                    self.symbol(self._name_of(op), op)
                case _:
                    raise SPIRVEncodeError("the operation is only allowed inside a function", op)
        for op in entry_points:
            self._entry_point(op, version)
        for op in graph_entry_points:
            self._graph(op)
        if self.origins is not None:
            self.origins.finish(self.words, self._defined_ids())
        return self.words.assemble(grammar().magic, version, self.ids.bound)

    def _defined_ids(self) -> Iterator[tuple[int, Operation]]:
        for name, known in self._symbol_ids.items():
            yield known, self._symbols[name]
        for op in self.module.walk():
            for result in op.results:
                if id(result) in self.values:
                    yield self.values[id(result)], op

    def _begin(self, section: Section, op: Operation, offset: int = 0) -> None:
        if self.origins is not None:
            self.origins.begin(section, len(self.words.sections[section]) + offset, op)

    # Ids, which encoders and functions request.

    def value(self, value: SSAValue) -> int:
        """Returns the id of a value."""
        known = self.values.get(id(value))
        if known is None:
            owner = value.owner
            known = None
            if isinstance(owner, Operation) and owner.name in self._without_instruction:
                known = self._without_instruction[owner.name](value, owner)
            known = self.ids.fresh() if known is None else known
            self.values[id(value)] = known
            if self.names and value.name_hint:
                self._name(known, value.name_hint)
        return known

    def operand(self, attribute: Attribute, op: Operation | None = None) -> int:
        """Returns the id of an operand that is an attribute: a number, a symbol or a type."""
        return self.constants.operand(attribute, op)

    def symbol(self, name: str, op: Operation | None) -> int:
        """
        Returns the id of a symbol. At the first call for a variable or constant, writes its
        definition.
        """
        self._in_use.add(name)
        known = self._symbol_ids.get(name)
        if known is not None:
            return known
        definition = self._symbols.get(name)
        if definition is None:
            raise SPIRVEncodeError(f"@{name} is not defined in the module", op)
        if name in self._defining:
            raise SPIRVEncodeError(f"the definition of @{name} refers to itself", op)
        define = self._definitions.get(definition.name)
        self._defining.add(name)
        id = self.ids.fresh() if define is None else define(definition)
        self._symbol_ids[name] = id
        if self.names and definition.name != "spirv.RawGlobal":
            self._name(id, name)
        return id

    def _carried_definition(self, op: Operation) -> int:
        """
        Encodes a raw operation with a result. Assigns the id first, because debug information may
        refer to itself.
        """
        name = self._name_of(op)
        id = self._reserved.pop(name, None) or self.ids.fresh()
        self._symbol_ids[name] = id
        op = self._carried_global(op, id)
        if op.instruction.data == "OpString" and isinstance(op.layout.data[0], StringAttr):
            self._files.setdefault(op.layout.data[0].data, id)
        elif self.names and op.constant_like:
            self._name(id, name)
        self._decorate_all(id, op, ("sym_name", "instruction", "layout", "type"))
        return id

    @cached_property
    def _carrier(self) -> Carrier:
        from xdsl_spirv.serialization.encode.carried import Carrier

        return Carrier(self)

    def _carried_type(self, type: Attribute, op: Operation | None) -> int:
        assert isinstance(type, spv.RawType)
        return self._carrier(type, op)

    def _carried_global(self, op: Operation, id: int | None) -> spv.RawGlobalOp:
        assert isinstance(op, spv.RawGlobalOp)
        self._carrier.write(op, id)
        return op

    def forward(self, name: str) -> int:
        """Returns the id of a symbol. Its definition may come later."""
        known = self._symbol_ids.get(name) or self._reserved.get(name)
        if (
            known is None
            and name in self._symbols
            and self._symbols[name].name == "spirv.RawGlobal"
        ):
            known = self._reserved[name] = self.ids.fresh()
        return self.symbol(name, None) if known is None else known

    def carried(self, op: spv.Carried) -> Sequence[int]:
        """Returns the words of a raw operation inside a function."""
        return self._carrier.words(op)

    def extended_set(self, name: str) -> int:
        known = self._extended_sets.get(name)
        if known is None:
            known = self._extended_sets[name] = self.ids.fresh()
            self._add(Section.IMPORTS, "OpExtInstImport", known, *string_words(name))
        return known

    # Debug information and decorations

    def line(self, op: Operation) -> tuple[int, int, int] | None:
        """
        Returns the file id, line and column of an operation. Returns None if they are unknown.
        """
        where: Attribute = op.location
        while not isinstance(where, FileLineColLoc):
            if isinstance(where, NameLoc):
                where = where.location
            elif isinstance(where, FusedLoc) and isinstance(where.locations, ArrayAttr):
                where = where.locations.data[0] if where.locations.data else UNKNOWN_LOC
            else:
                return None
        name = where.filename.data
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = self.ids.fresh()
            self._add(Section.SOURCES, "OpString", file, *string_words(name))
        return file, where.line.data, where.column.data

    def decorate(self, target: int, op: Operation) -> None:
        """Writes a decoration for each discardable attribute of an operation."""
        for name, attribute in sorted(op.attributes.items()):
            self.decorations.add_attribute(target, name, attribute, op)

    def is_declaration(self, op: Operation) -> bool:
        """
        True if the operation's result is defined outside of its block, like a constant. In this
        case, also gives the result an id.
        """
        if op.name not in self._without_instruction or isinstance(op, spv.SelectionOp | spv.LoopOp):
            return False
        self.value(op.results[0])
        return True

    def _name(self, target: int, name: str) -> None:
        if target in self._named:
            return
        self._named.add(target)
        self._add(Section.NAMES, "OpName", target, *string_words(name))

    def _add(self, section: Section, name: str, *operands: int) -> None:
        self.words.add(section, grammar().instruction(name).opcode, operands)

    @staticmethod
    def _name_of(op: Operation) -> str:
        name = op.properties.get("sym_name")
        if not isinstance(name, StringAttr):
            raise SPIRVEncodeError("the operation has no symbol name; add sym_name", op)
        return name.data

    # Values of operations that have no instruction in their block

    def _replicated(self, value: SSAValue, op: Operation) -> int:
        assert isinstance(op, spv.ConstantCompositeReplicateOp)
        return self.constants.replicated(op.value, spv.repeated_types(op, op.value, value.type), op)

    def _constant_words(self, value: SSAValue, op: Operation, field: str) -> int:
        words, t = integers(op.properties[field], op), self.type(value.type, op)
        return self.declarations.declare(instruction_for(type(op)).name, t, words)[0]

    def _referenced(self, symbol: Attribute, op: Operation) -> int:
        if not isinstance(symbol, SymbolRefAttr):
            raise SPIRVEncodeError(f"the operand must be a symbol (@name), not {symbol}", op)
        return self.symbol(symbol.string_value(), op)

    def _merged(self, value: SSAValue, op: Operation) -> int:
        """
        Returns the id for a result of a selection or loop, which is the id of an operand of
        `spirv.mlir.merge`.
        """
        last = op.regions[0].blocks[-1].last_op if op.regions[0].blocks else None
        index = list(op.results).index(value)  # pyright: ignore
        if last is None or index >= len(last.operands):
            raise SPIRVEncodeError("spirv.mlir.merge has no operand for a result; add it", op)
        return self.value(last.operands[index])

    def _spec_constant_operation(self, value: SSAValue, op: Operation) -> int:
        inner = op.regions[0].block.first_op
        if inner is None or len(inner.results) != 1:
            raise SPIRVEncodeError(
                "the region must contain one operation with exactly one result", op
            )
        # Operands are declared before the instruction.
        for operand in inner.operands:
            self.value(operand)
        head, type_id, result, *operands = encoder_of(inner)(self, inner)
        self._add(Section.GLOBALS, "OpSpecConstantOp", type_id, result, head & 0xFFFF, *operands)
        return result

    # Definitions of symbols.

    def _global_variable(self, op: Operation) -> int:
        t = op.properties["type"]
        if not isinstance(t, spv.PointerType):
            raise SPIRVEncodeError(f"a variable's type must be a pointer, not {t}", op)
        type_id = self.type(t, op)
        if t.storage_class.data in BLOCK_CLASSES:
            self.types.decorate_block(t.pointee)
        operands = [int(t.storage_class.data)]
        initializer = op.properties.get("initializer")
        if initializer is not None:
            operands.append(self.operand(initializer, op))
        variable = self.declarations.emit("OpVariable", type_id, operands)
        self._decorate_all(variable, op, ("type", "sym_name", "initializer"))
        return variable

    def _untyped_variable(self, op: Operation) -> int:
        assert isinstance(op, spv.UntypedGlobalVariableOp)
        t, held = op.type, op.data_type
        operands = [int(t.storage_class.data)]
        if held is not None:
            operands.append(self.type(held, op))
            if t.storage_class.data in BLOCK_CLASSES:
                self.types.decorate_block(held)
        if op.initializer is not None:
            operands.append(self.operand(op.initializer, op))
        variable = self.declarations.emit("OpUntypedVariableKHR", self.type(t, op), operands)
        self._decorate_all(variable, op, ("type", "sym_name", "initializer", "data_type"))
        return variable

    def _decorate_all(self, target: int, op: Operation, but: Sequence[str]) -> None:
        for name, attribute in sorted((op.properties | op.attributes).items()):
            if name == "linkage_attributes":
                self._linkage(target, attribute, op)
            elif name not in but and name != "entry_name":
                self.decorations.add_attribute(target, name, attribute, op)

    def _linkage(self, target: int, attribute: Attribute, op: Operation) -> None:
        if not isinstance(attribute, spv.LinkageAttributesAttr):
            raise SPIRVEncodeError(
                f"linkage_attributes must be a #spirv.linkage_attributes, not {attribute}", op
            )
        name, linkage = string_words(attribute.linkage_name.data), attribute.linkage_type.data
        self.decorations.add(target, spv.Decoration.LinkageAttributes, *name, linkage)

    def _spec_constant(self, op: Operation) -> int:
        value = op.properties["default_value"]
        if not isinstance(value, IntegerAttr | FloatAttr):
            raise SPIRVEncodeError(f"default_value must be a number, not {value}", op)
        t = value.type
        type_id, words = self.type(t, op), scalar_words(value, t, op)
        if isinstance(t, IntegerType) and t.width.data == 1:
            name = "OpSpecConstantTrue" if words[0] else "OpSpecConstantFalse"
            constant = self.declarations.emit(name, type_id, ())
        else:
            constant = self.declarations.emit("OpSpecConstant", type_id, words)
        self._decorate_all(constant, op, ("sym_name", "default_value"))
        return constant

    def _symbolic_constant(self, op: Operation) -> int:
        field = SYMBOLIC_CONSTANTS[op.name]
        given = op.properties[field]
        if field == "data":
            operands = integers(given, op)
        else:
            symbols = given.data if isinstance(given, ArrayAttr) else (given,)
            operands = [self._referenced(symbol, op) for symbol in symbols]
        type_id = self.type(op.properties["type"], op)
        name = instruction_for(type(op)).name
        constant = self.declarations.emit(name, type_id, operands)
        self._decorate_all(constant, op, ("sym_name", "type", field))
        return constant

    # Sections.

    def _declare_triple(self) -> tuple[int, int]:
        """Writes capabilities and extensions. Returns the version of SPIR-V."""
        triple = self.module.vce_triple
        if triple is None:
            raise SPIRVEncodeError(
                "the module does not say which version, capabilities and extensions it requires; "
                "run the pass spirv-update-vce first",
                self.module,
            )
        for capability in triple.capabilities:
            self._add(Section.CAPABILITIES, "OpCapability", capability.data)
        for extension in triple.extensions:
            self._add(Section.EXTENSIONS, "OpExtension", *string_words(extension.data))
        return triple.version.data

    def _memory_model(self) -> None:
        addressing, memory = self.module.addressing_model, self.module.memory_model
        self._add(Section.MEMORY_MODEL, "OpMemoryModel", addressing.data, memory.data)

    def _function(self, func: FuncOp) -> None:
        self._in_use = set()
        encoder = FunctionEncoder(self)
        words = encoder.encode(func)
        section = Section.FUNCTIONS if func.body.blocks else Section.DECLARATIONS
        for offset, op in encoder.origins:
            self._begin(section, op, offset)
        self.words.sections[section] += words
        self._uses[func.sym_name.data] = self._in_use
        # Symbols used after the function's end (by its entry point) are not uses by the function.
        self._in_use = set()
        self._decorate_all(
            self.symbol(func.sym_name.data, func),
            func,
            ("sym_name", "function_type", "function_control", "arg_attrs", "res_attrs"),
        )

    def _graph(self, op: Operation) -> None:
        from xdsl_spirv.serialization.encode.graphs import write_graph

        write_graph(self, op)

    def _entry_point(self, op: spv.EntryPointOp, version: tuple[int, int]) -> None:
        name = op.fn.string_value()
        function = self.symbol(name, op)
        listed = [s.string_value() for s in op.interface.data]
        interface = dict.fromkeys(listed + self._used_variables(name, version))
        given = op.attributes.get("entry_name")
        called = given.data if isinstance(given, StringAttr) else name
        self._begin(Section.ENTRY_POINTS, op)
        self._add(
            Section.ENTRY_POINTS,
            "OpEntryPoint",
            op.execution_model.data,
            function,
            *string_words(called),
            *(self.symbol(s, op) for s in interface),
        )

    def _used_variables(self, function: str, version: tuple[int, int]) -> list[str]:
        """
        Returns the variables that an entry point uses, also through the functions it calls, in the
        module's order.
        """
        reached, waiting = {function}, [function]
        while waiting:
            for name in self._uses.get(waiting.pop(), ()):
                if name not in reached:
                    reached.add(name)
                    waiting.append(name)
        names: list[str] = []
        for name, op in self._symbols.items():
            if name in reached and isinstance(op, spv.ModuleVariable):
                of_stage = op.storage_class in (spv.StorageClass.Input, spv.StorageClass.Output)
                if of_stage or version >= INTERFACE_OF_ALL:
                    names.append(name)
        return names

    def _execution_mode(self, op: spv.ExecutionModeOp) -> None:
        mode = grammar().kind("ExecutionMode")[op.execution_mode.data]
        function = self.symbol(op.fn.string_value(), op)
        values = op.values.data
        if any(p.kind.startswith("Id") for p in mode.parameters):
            operands, name = [self.operand(v, op) for v in values], "OpExecutionModeId"
        else:
            operands, name = [w for v in values for w in integers(v, op)], "OpExecutionMode"
        if len(operands) != len(mode.parameters):
            raise SPIRVEncodeError(
                f"{mode.name} must have {len(mode.parameters)} values, not {len(operands)}", op
            )
        self._begin(Section.EXECUTION_MODES, op)
        self._add(Section.EXECUTION_MODES, name, function, mode.value, *operands)
