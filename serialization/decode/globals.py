"""
Decodes the constants, variables and symbols of a binary.

A constant that an attribute can hold is repeated at each use. Every other instruction outside of
functions gets a symbol (the id's OpName if it exists and is unique). It becomes a declaration of
the dialect (variable, specialization constant, function) or a raw operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntAttr, IntegerAttr, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute

from xdsl_spirv.dialects import spv
from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.decode.annotations import Annotations, Note
from xdsl_spirv.serialization.decode.constants import ConstantReader
from xdsl_spirv.serialization.decode.module_index import EXTENDED, ModuleIndex
from xdsl_spirv.serialization.decode.types import TypeReader
from xdsl_spirv.serialization.raw.errors import SPIRVUnknownError
from xdsl_spirv.serialization.raw.literals import words_of
from xdsl_spirv.serialization.raw.operands import RawOperand

T = TypeVar("T", bound=Attribute | SSAValue)

VARIABLES = ("OpVariable", "OpUntypedVariableKHR")
SPECIALIZABLE = (
    "OpSpecConstant",
    "OpSpecConstantTrue",
    "OpSpecConstantFalse",
    "OpSpecConstantComposite",
    "OpSpecConstantCompositeReplicateEXT",
)
"""Instructions that are decoded even if unused, because a program may set their value."""

NOTES = (
    *("OpSource", "OpSourceContinued", "OpSourceExtension", "OpModuleProcessed"),
    "OpSamplerImageAddressingModeNV",
)
"""Instructions without a result, to which no other instruction refers."""

ALIAS_SETS = ("OpAliasDomainDeclINTEL", "OpAliasScopeDeclINTEL", "OpAliasScopeListDeclINTEL")
"""Instructions to which only decorations refer."""

READ_BY_OTHERS = (
    *("OpCapability", "OpExtension", "OpExtInstImport", "OpMemoryModel", "OpEntryPoint"),
    *("OpExecutionMode", "OpString", "OpLine", "OpNoLine", "OpNop", "OpName", "OpMemberName"),
    *("OpDecorat", "OpMemberDecorate", "OpGroupDecorate", "OpGroupMemberDecorate"),
    *("OpType", "OpConstant", "OpSpecConstant", "OpUndef", "OpGraphConstantARM"),
)
"""
Prefixes of instructions that other classes decode (sections, annotations, types and constants).
"""


class GlobalTable:
    """Decodes the instructions outside of functions, and assigns symbols."""

    def __init__(self, index: ModuleIndex, annotations: Annotations, types: TypeReader):
        self.index = index
        self.annotations = annotations
        self.types = types
        self.operations: dict[int, Operation] = {}
        """Maps the index of an instruction to its operation."""
        self._symbols: dict[int, str] = {}
        self._used: set[str] = set()
        self._next: dict[str, int] = {}
        """Maps a name that is taken to the next number to try as its suffix."""
        self.values = ConstantReader(index, types)
        self._name_entry_points()

    def _name_entry_points(self) -> None:
        """
        Names functions and graphs after their entry points. Runs first, so that other ids cannot
        take the names.
        """
        opcodes = [_opcode(name) for name in ("OpEntryPoint", "OpGraphEntryPointARM")]
        for row in np.flatnonzero(np.isin(self.index.raw.opcodes, opcodes)).tolist():
            self.index.at = row
            operands = self.index.raw[row].operands
            if len(operands) > 1:
                function, name = operands[self.index.opcodes[row] == opcodes[0] :][:2]
                id = int(function.value)
                if id not in self._symbols and name.value not in self._used and name.value:
                    self._symbols[id] = self.index.text(str(name.value)).data
                    self._used.add(str(name.value))

    def _name_symbol(self, id: int, otherwise: str) -> str:
        name = self._symbols.get(id)
        if name is None:
            wanted = self.annotations.names.get(id) or otherwise
            name, count = wanted, self._next.get(wanted, 1)
            while name in self._used:
                name, count = f"{wanted}_{count}", count + 1
            self._next[wanted] = count
            self._used.add(name)
            self._symbols[id] = name
        return name

    # Symbols

    def declare(self) -> None:
        """Decodes the instructions that are needed even if unused, in the module's order."""
        index = self.index
        for row in range(index.first_function):
            name, words = index.name(row), index.rows[row]
            index.at = row
            for id in index.parts(row):
                if index.definitions.get(id, 0) >= row:
                    raise index.error(f"%{id} is used before it is defined")
            if name in VARIABLES or name in SPECIALIZABLE:
                self.symbol(index.word(words, 2))
            elif name in EXTENDED:
                self.symbol(index.word(words, 2))
            elif name in ALIAS_SETS:
                self.symbol(index.word(words, 1))
            elif name in NOTES:
                self.operations[row] = spv.RawGlobalOp(None, name, self.layout(row))
            elif name is not None and (
                not name.startswith(READ_BY_OTHERS) or name.endswith("ContinuedINTEL")
            ):
                raise index.error(f"{name} is not supported outside of functions")

    def function(self, id: int) -> str:
        """Returns the symbol of a function or graph. Raises `SPIRVDecodeError` for other ids."""
        row = self.index.definitions.get(id)
        if row is None or self.index.name(row) not in ("OpFunction", "OpGraphARM"):
            raise self.index.error(f"%{id} is not a function")
        return self._name_symbol(id, "function")

    def variable(self, id: int) -> str:
        """
        Returns the symbol of a variable outside of functions. Raises `SPIRVDecodeError` for other
        ids.
        """
        row = self.index.definitions.get(id)
        if row is None or self.index.name(row) not in VARIABLES or row >= self.index.first_function:
            raise self.index.error(f"%{id} is not a variable of the module")
        return self.symbol(id)

    def symbol_reference(self, id: int) -> SymbolRefAttr:
        return SymbolRefAttr(self.symbol(id))

    def symbol(self, id: int) -> str:
        """
        Returns the symbol of an id outside of functions. Creates its operation at the first call.

        Raises `SPIRVDecodeError` for an id that is inside a function or undefined.
        """
        row = self.index.definitions.get(id)
        if row is None:
            raise self.index.error(f"%{id} is not defined")
        name = self.index.name(row) or ""
        if name == "OpFunction":
            return self.function(id)
        if row >= self.index.first_function:
            raise self.index.error(f"%{id} is used outside of its function")
        if row in self.operations or id in self._symbols:
            return self._symbols[id]
        symbol = self._name_symbol(id, _default_name(name))
        at, self.index.at = self.index.at, row
        self.operations[row] = self._define(name, symbol, row)
        self.index.at = at
        return symbol

    def _define(self, name: str, symbol: str, row: int) -> Operation:
        words, declaration = self.index.rows[row], None
        if name in VARIABLES:
            declaration = self._variable(symbol, words)
        elif name in ("OpSpecConstant", "OpSpecConstantTrue", "OpSpecConstantFalse"):
            declaration = self._spec_constant(symbol, name, words)
        elif name == "OpSpecConstantComposite":
            declaration = self._spec_composite(symbol, words)
        elif name == "OpSpecConstantCompositeReplicateEXT":
            declaration = self._spec_replicated(symbol, words)
        elif name == "OpSpecConstantDataKHR":
            t = cast("TypeAttribute", self.types.type(self.index.word(words, 1)))
            declaration = spv.SpecConstantDataOp(symbol, words[3:], t)
            declaration.attributes |= self.annotations.attributes(words[2], self.operand)
        return declaration or self._carry(symbol, name, row)

    def _carry(self, symbol: str, name: str, row: int) -> Operation:
        words, entry = self.index.rows[row], grammar().instruction(name)
        t = self.types.type(self.index.word(words, 1)) if entry.has_result_type else None
        carrier = spv.RawGlobalOp(symbol, name, self.layout(row), t)
        if entry.has_result:
            id = words[1 + entry.has_result_type]
            carrier.attributes |= self.annotations.attributes(id, self.operand)
        return carrier

    def _variable(self, symbol: str, words: Sequence[int]) -> Operation | None:
        t, id = self.types.type(self.index.word(words, 1)), self.index.word(words, 2)
        if isinstance(t, spv.PointerType) and self.index.opcodes[self.index.at] == _opcode(
            "OpVariable"
        ):
            variable: spv.ModuleVariable = spv.GlobalVariableOp(symbol, t)
            rest = words[4:]
        elif isinstance(t, spv.UntypedPointerType) and len(words) > 3:
            data = self.types.type(words[4]) if len(words) > 4 else None
            variable = spv.UntypedGlobalVariableOp(symbol, t, cast("TypeAttribute | None", data))
            rest = words[5:]
        else:
            return None
        if self.index.word(words, 3) != t.storage_class.data:
            raise self.index.error(
                "a variable's storage class differs from the storage class of its type"
            )
        if rest:
            variable.properties["initializer"] = self.symbol_reference(rest[0])
        spv.set_attributes(variable, self.read_attributes(id))
        return variable

    def read_attributes(self, id: int) -> dict[str, Attribute]:
        """
        Returns the decorations of a function or variable as attributes. The linkage is one
        attribute.
        """
        linkage = self.annotations.find(id, spv.Decoration.LinkageAttributes)
        but = () if linkage is None else (spv.Decoration.LinkageAttributes,)
        attributes = self.annotations.attributes(id, self.operand, but)
        if linkage is not None:
            name, kind = (p.value for p in linkage.parameters)
            text = self.index.text(str(name)).data
            attributes["linkage_attributes"] = spv.LinkageAttributesAttr(
                text, spv.LinkageType(int(kind))
            )
        return attributes

    def _spec_constant(self, symbol: str, name: str, words: Sequence[int]) -> Operation | None:
        id = self.index.word(words, 2)
        if name == "OpSpecConstant":
            value = self.values.scalar(id)
        else:
            value = IntegerAttr.from_bool(name == "OpSpecConstantTrue")
        if not isinstance(value, IntegerAttr | FloatAttr):
            return None
        note = self.annotations.find(id, spv.Decoration.SpecId)
        constant = spv.SpecConstantOp(symbol, value, None if note is None else note.literal())
        constant.attributes |= self.annotations.attributes(
            id, self.operand, (spv.Decoration.SpecId,)
        )
        return constant

    def _spec_composite(self, symbol: str, words: Sequence[int]) -> Operation | None:
        t, id = self.types.type(self.index.word(words, 1)), self.index.word(words, 2)
        names = [self.index.name(self.index.definitions.get(i, 0)) for i in words[3:]]
        types = spv.constituent_types(t)
        if types is None or len(types) != len(names):
            return None
        if not all(name is not None and name.startswith("OpSpecConstant") for name in names):
            return None
        symbols = [self.symbol(i) for i in words[3:]]
        composite = spv.SpecConstantCompositeOp(symbol, symbols, cast("TypeAttribute", t))
        composite.attributes |= self.annotations.attributes(id, self.operand)
        return composite

    def _spec_replicated(self, symbol: str, words: Sequence[int]) -> Operation | None:
        t, id = self.types.type(self.index.word(words, 1)), self.index.word(words, 2)
        name = self.index.name(self.index.definitions.get(self.index.word(words, 3), 0)) or ""
        if not name.startswith("OpSpecConstant"):
            return None
        constituent = self.symbol(words[3])
        composite = spv.SpecConstantCompositeReplicateOp(
            symbol, constituent, cast("TypeAttribute", t)
        )
        composite.attributes |= self.annotations.attributes(id, self.operand)
        return composite

    # Constants

    def constant(self, id: int) -> int | None:
        """Returns the number of an integer constant. Returns None for other ids."""
        value = self.attribute(id)
        return value.value.data if isinstance(value, IntegerAttr) else None

    def attribute(self, id: int) -> Attribute | None:
        """
        Converts an id to the attribute of a property: a constant's value, a type, or a symbol.

        Returns None for an id that is defined inside a function.
        """
        value = self.values.value(id)
        if value is not None:
            return value
        row = self.index.definitions.get(id)
        if row is None:
            raise self.index.error(f"%{id} is not defined")
        name = self.index.name(row) or ""
        if name.startswith("OpType"):
            return self.types.type(id)
        if row >= self.index.first_function and name != "OpFunction":
            return None
        return self.symbol_reference(id)

    # Operands

    def operand(self, id: int) -> Attribute:
        """Converts an id to an attribute. The id must be defined outside of functions."""
        attribute = self.attribute(id)
        if attribute is None:
            raise self.index.error(f"%{id} is used outside of its function")
        if isinstance(attribute, IntegerAttr | SymbolRefAttr) or self.types.is_type(id):
            return attribute
        return spv.ConstantRefAttr(attribute, self._type_of(id))

    def read_carried(self, id: int) -> Attribute:
        """Converts an id among the operands of a raw operation to an attribute."""
        if id in self.index.raw.symbols.imports:
            return self.extended_set(id)
        attribute = self.attribute(id)
        if attribute is None:
            raise self.index.error(f"%{id} is used outside of its function")
        if isinstance(attribute, SymbolRefAttr) or self.types.is_type(id):
            return attribute
        return spv.ConstantRefAttr(attribute, self._type_of(id))

    def _type_of(self, id: int) -> Attribute:
        return self.types.type(self.index.rows[self.index.definitions[id]][1])

    def extended_set(self, id: int) -> spv.ExtendedSetAttr:
        name = self.index.raw.symbols.imports.get(id)
        if name is None:
            raise self.index.error(f"no OpExtInstImport imports %{id}")
        return spv.ExtendedSetAttr(self.index.text(name).data)

    def operands(self, row: int) -> list[RawOperand]:
        """
        Returns the operands of an instruction for a raw operation. The id 0, which glslang writes
        into debug information, becomes a literal.
        """
        instruction = self.index.raw[row]
        try:
            return instruction.operands
        except SPIRVUnknownError:
            words = instruction.words
            name = "" if len(words) < 5 else self.index.raw.symbols.imports.get(words[3], "")
            if instruction.name not in EXTENDED or not name.startswith("NonSemantic."):
                raise
        heads = ["IdResultType", "IdResult", "IdRef", "LiteralExtInstInteger"]
        kinds = heads + ["IdRef" if w else "LiteralInteger" for w in words[5:]]
        return [
            RawOperand(k, w, i + 1) for i, (k, w) in enumerate(zip(kinds, words[1:], strict=True))
        ]

    def layout(self, row: int) -> list[Attribute]:
        """Returns the operands of an instruction outside of functions for a raw operation."""
        at, self.index.at = self.index.at, row
        entries = self.read_operands(row, self.read_carried)
        self.index.at = at
        return entries

    def read_operands(self, row: int, read_id: Callable[[int], T]) -> list[Attribute | T]:
        """Returns the operands of an instruction for a raw operation. `read_id` converts ids."""
        entries: list[Attribute | T] = []
        is_extended = self.index.name(row) in EXTENDED
        for operand in self.operands(row):
            value, kind = operand.value, operand.kind
            if kind in ("IdResultType", "IdResult"):
                continue
            if isinstance(value, str):
                entries.append(self.index.literal(value))
            elif kind == "LiteralSpecConstantOpInteger":
                entries.append(StringAttr(_instruction_name(value)))
            elif kind.startswith("Id"):
                first = is_extended and not entries
                entries.append(self.extended_set(value) if first else read_id(value))
            elif operand.number is not None:
                entries += [IntAttr(w) for w in words_of(value, operand.number)]
            else:
                entries.append(IntAttr(value))
        return entries

    def materialize(self, id: int) -> Operation | None:
        """
        Creates an operation whose result is the value of an id outside of functions. Returns None
        for an id without a value, such as a type.
        """
        row = self.index.definitions.get(id)
        if row is None or (row >= self.index.first_function and self.index.name(row) != "OpUndef"):
            return None
        name = self.index.name(row) or ""
        if name == "OpUndef":
            return spv.UndefOp(self._type_of(id))
        if name == "OpGraphConstantARM":
            return spv.GraphConstantOp(self.index.word(self.index.rows[row], 3), self._type_of(id))
        if name == "OpConstantNull":
            return spv.ConstantNullOp(self._type_of(id))
        words = self.index.rows[row]
        if name == "OpConstantDataKHR":
            return spv.ConstantDataOp(words[3:], self._type_of(id))
        if name == "OpConstantCompositeReplicateEXT":
            value = self.values.value(self.index.innermost(row))
            if value is not None:
                return spv.ConstantCompositeReplicateOp(value, self._type_of(id))
        if not (
            name.startswith(("OpConstant", "OpSpecConstant", "OpExtInst")) or name in VARIABLES
        ):
            return None
        value = self.attribute(id)
        if isinstance(value, SymbolRefAttr):
            operation = self.operations.get(row)
            if isinstance(operation, spv.ModuleVariable):
                return spv.AddressOfOp(operation)
            return spv.ReferenceOfOp(value, self._type_of(id))
        return (
            None
            if value is None
            else spv.ConstantOp.create(
                properties={"value": value}, result_types=[self._type_of(id)]
            )
        )

    # Order of the module

    def take(self) -> list[Operation]:
        """Detaches all operations and returns them in the module's order."""
        operations = [self.operations[row] for row in sorted(self.operations)]
        for op in operations:
            if op.parent is not None:
                op.detach()
        return operations

    def notes(self) -> list[Operation]:
        """Creates raw operations for the decorations and names that no attribute can hold."""
        placed: list[tuple[int, spv.RawGlobalOp]] = []
        for id, note, member in self.types.notes.values():
            placed.append((note.row, self._note(self.types.type(id), note, member)))
        for id, notes in self.annotations.notes.items():
            row = self.index.definitions.get(id)
            name = None if row is None else self.index.name(row)
            if name is None:
                continue
            for note in notes:
                self.index.at = note.row
                if name.startswith("OpConstant") or name == "OpUndef":
                    constant = self.read_carried(id)
                    # The raw operation of a constant already has the decorations.
                    if not isinstance(constant, SymbolRefAttr):
                        placed.append((note.row, self._note(constant, note, None)))
                elif id in self.types.known and not self._is_held(name, note):
                    placed.append((note.row, self._note(self.types.type(id), note, None)))
        placed.sort(key=lambda pair: pair[0])
        # Declarations that become one type may have equal decorations.
        once = {(op.instruction, op.layout): op for _, op in placed}
        return [*once.values(), *self._member_names()]

    @staticmethod
    def _is_held(type_name: str, note: Note) -> bool:
        strided = ("OpTypeArray", "OpTypeRuntimeArray", "OpTypePointer")
        return type_name == "OpTypeStruct" or (
            type_name in strided and note.decoration == spv.Decoration.ArrayStride
        )

    def _note(self, target: Attribute, note: Note, member: int | None) -> spv.RawGlobalOp:
        layout: list[Attribute] = [target]
        if member is not None:
            layout.append(IntAttr(member))
        layout.append(IntAttr(note.decoration))
        for parameter in note.parameters:
            value = parameter.value
            if isinstance(value, str):
                layout.append(self.index.text(value))
            elif parameter.kind.startswith("Id"):
                layout.append(self.read_carried(value))
            else:
                layout.append(IntAttr(value))
        return spv.RawGlobalOp(None, note.instruction, layout)

    def _member_names(self) -> list[Operation]:
        carriers: list[Operation] = []
        for struct, names in self.annotations.member_names.items():
            t = self.types.known.get(struct)
            for row, member, name in names if t is not None else ():
                self.index.at = row
                layout = [cast("Attribute", t), IntAttr(member), self.index.text(name)]
                carriers.append(spv.RawGlobalOp(None, "OpMemberName", layout))
        return carriers


def _opcode(name: str) -> int:
    return grammar().instruction(name).opcode


def _instruction_name(opcode: int) -> str:
    entry = grammar().by_opcode(opcode)
    return "" if entry is None else entry.name


def _default_name(instruction: str) -> str:
    if instruction in VARIABLES:
        return "variable"
    if instruction.startswith("OpSpecConstant"):
        return "spec"
    return "string" if instruction == "OpString" else "carried"
