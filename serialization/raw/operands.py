"""
Reads the operands of an instruction by the grammar.

Operands are listed flat and in order. The parameters of an enumerant follow it, as in assembly. Two
facts are not in the instruction: the width of a number (the type of an OpConstant, the selector of
an OpSwitch) and the instruction set of an OpExtInst. Both come from the declaration of an id, which
`Symbols` finds in one vectorised pass. A declaration is valid only for later instructions. If an id
is declared twice, the first declaration counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from xdsl_spirv.grammar import Category, Operand, grammar
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError, SPIRVUnknownError
from xdsl_spirv.serialization.raw.literals import NumberType, literal_type, value_of

if TYPE_CHECKING:
    from xdsl_spirv.serialization.raw.binary import RawInstruction, RawModule


class RawOperand(NamedTuple):
    """One operand, or one parameter of an enumerant."""

    kind: str
    """The grammar's operand kind: `IdRef`, `LiteralString`, `StorageClass`, ..."""
    value: int | str
    """An id, an enumeration's value, a string, or a number's bits."""
    word: int
    """Index of the operand's first word in the instruction."""
    number: NumberType | None = None
    """The type of a number whose width depends on the context."""


class Spec(NamedTuple):
    """Describes how to read one operand of the grammar."""

    form: str
    """
    Form of the operand: a literal (`integer`, ...), `id`, an enumeration's `value` or `mask`, or
    `pair`.
    """
    kind: str
    quantifier: str
    name: str
    parts: tuple[Spec, ...] = ()
    """The two halves of a `pair`. Empty for other forms."""


class EnumTable(NamedTuple):
    """Names of the values of an enumeration, and the operands that follow each value."""

    names: Mapping[int, str]
    parameters: Mapping[int, tuple[Spec, ...]]


_LITERAL_FORMS = {
    "LiteralInteger": "integer",
    "LiteralString": "string",
    "LiteralFloat": "float",
    "LiteralContextDependentNumber": "number",
    "LiteralExtInstInteger": "extended",
    "LiteralSpecConstantOpInteger": "opcode",
}
_CATEGORY_FORMS = {
    Category.ID: "id",
    Category.VALUE: "value",
    Category.BITS: "mask",
    Category.COMPOSITE: "pair",
}


def _spec(operand: Operand) -> Spec:
    kind = grammar().kind(operand.kind)
    name = operand.name or operand.kind
    if kind.category is Category.LITERAL:
        return Spec(_LITERAL_FORMS[operand.kind], operand.kind, operand.quantifier, name)
    parts = tuple(_spec(Operand(base, "", name, "")) for base in kind.bases)
    return Spec(_CATEGORY_FORMS[kind.category], operand.kind, operand.quantifier, name, parts)


@cache
def enum_table(kind: str) -> EnumTable:
    """Returns an enumeration of the grammar. A value with several names gets the first one."""
    facts = grammar().kind(kind)
    names: dict[int, str] = {}
    parameters: dict[int, tuple[Spec, ...]] = {}
    for name in facts.names:
        enumerant = facts[name]
        if enumerant.value in names:
            continue
        names[enumerant.value] = name
        if enumerant.parameters:
            parameters[enumerant.value] = tuple(_spec(p) for p in enumerant.parameters)
    return EnumTable(names, parameters)


@cache
def operand_specs(opcode: int) -> tuple[Spec, ...] | None:
    """Returns the specs of an instruction's operands. Returns None if the opcode is unknown."""
    entry = grammar().by_opcode(opcode)
    return None if entry is None else tuple(_spec(o) for o in entry.operands)


@cache
def extended_operand_specs(instruction_set: str, number: int) -> tuple[Spec, ...] | None:
    """
    Returns the specs of an extended instruction's operands. Returns None for an unknown
    instruction.
    """
    entry = grammar().by_extended_opcode(instruction_set, number)
    return None if entry is None else tuple(_spec(o) for o in entry.operands)


@cache
def nested_operand_specs(opcode: int) -> tuple[Spec, ...] | None:
    """
    Returns the specs of the operands that follow `opcode` in OpSpecConstantOp. Returns None if the
    opcode is not allowed there.
    """
    entry = grammar().by_opcode(opcode)
    if entry is None or not entry.has_result_type or not entry.has_result:
        return None
    specs = tuple(_spec(o) for o in entry.inputs)
    return None if any(s.form in ("number", "extended", "opcode") for s in specs) else specs


@cache
def opcode_of(name: str) -> int:
    """Returns the opcode of an instruction, given by its name."""
    return grammar().instruction(name).opcode


@cache
def opcode_table(*names: str) -> NDArray[np.bool_]:
    """
    Returns a boolean array, indexed by opcode. It is true for the instructions with these names.
    """
    table = np.zeros(1 << 16, dtype=np.bool_)
    table[[opcode_of(name) for name in names]] = True
    return table


T = TypeVar("T")


def _seen_entry(table: Mapping[int, tuple[int, T]], key: int, index: int) -> T:
    """
    Returns an entry of a table. Raises `KeyError` unless the declaring instruction comes before
    `index`.
    """
    declared, type = table[key]
    if declared >= index:
        raise KeyError(key)
    return type


class Symbols:
    """The declarations of a module without which operands of other instructions cannot be read."""

    def __init__(self, module: RawModule):
        self.module = module
        self.numbers: dict[int, tuple[int, NumberType | None]] = {}
        """
        Maps the id of a scalar type to the index of its instruction and the type of its literals
        (None if undefined).
        """
        self.sets: dict[int, tuple[int, str | None]] = {}
        """
        Maps the id of an OpExtInstImport to the index of the instruction and the name of the set
        (None if unknown).
        """
        self.imports: dict[int, str] = {}
        """Maps the id of an OpExtInstImport to the name of the set as the module spells it."""
        self._value_types: dict[int, tuple[int, int]] | None = None

    @classmethod
    def of(cls, module: RawModule) -> Symbols:
        symbols = cls(module)
        wanted = opcode_table("OpTypeInt", "OpTypeFloat", "OpExtInstImport")
        for index in np.flatnonzero(wanted[module.opcodes]).tolist():
            symbols._declare(module[index])
        return symbols

    def _declare(self, instruction: RawInstruction) -> None:
        try:
            operands = self.operands(instruction)
        except SPIRVDecodeError:
            return  # The error is reported when this instruction's own operands are read.
        values = [operand.value for operand in operands]
        result = int(values[0])
        if instruction.opcode == opcode_of("OpExtInstImport"):
            known = grammar().extended_set(str(values[1]))
            self.sets.setdefault(result, (instruction.index, known))
            self.imports.setdefault(result, str(values[1]))
            return
        number = scalar_type(instruction.opcode, [int(v) for v in values[1:]])
        self.numbers.setdefault(result, (instruction.index, number))

    @property
    def value_types(self) -> dict[int, tuple[int, int]]:
        """
        Maps a result id to the index of its instruction and the id of its type. Empty if the module
        has no OpSwitch.
        """
        if self._value_types is None:
            self._value_types = _value_types(self.module)
        return self._value_types

    def number_type(self, type_id: int, index: int) -> NumberType | None:
        """
        Returns the scalar type of an id. Returns None if SPIR-V does not define literals of that
        type.

        Raises `KeyError` if no instruction before `index` declares the id as a scalar type.
        """
        return _seen_entry(self.numbers, type_id, index)

    def selector_type(self, value: int, index: int) -> NumberType | None:
        """
        Returns the scalar type of an OpSwitch's selector. Has the same exceptions as `number_type`.
        """
        return self.number_type(_seen_entry(self.value_types, value, index), index)

    def instruction_set(self, set_id: int, index: int) -> str | None:
        """
        Returns the name of an imported instruction set. Returns None if the set is unknown.

        Raises `KeyError` if no OpExtInstImport before `index` has this id.
        """
        return _seen_entry(self.sets, set_id, index)

    def operands(self, instruction: RawInstruction) -> list[RawOperand]:
        """Reads an instruction's operands. Raises the errors of `RawInstruction.operands`."""
        specs = operand_specs(instruction.opcode)
        if specs is None:
            raise SPIRVUnknownError(
                "the opcode is not in the grammar",
                instruction.offset,
                instruction.index,
                instruction.opcode,
            )
        return _Reader(self, instruction, self.module.header.bound).read_all(specs)


def scalar_type(opcode: int, values: list[int]) -> NumberType | None:
    """
    Returns the type that an OpTypeInt or OpTypeFloat with these literals declares. Returns None if
    SPIR-V does not define literals of that type.
    """
    width, *rest = values
    is_float = opcode == opcode_of("OpTypeFloat")
    encoding = enum_table("FPEncoding").names[rest[0]] if is_float and rest else None
    try:
        return literal_type(width, is_float, bool(not is_float and rest[0]), encoding)
    except ValueError:
        return None


@cache
def _typed_opcodes() -> NDArray[np.bool_]:
    entries = map(grammar().instruction, grammar().instruction_names)
    return opcode_table(*(e.name for e in entries if e.has_result_type and e.has_result))


def _value_types(module: RawModule) -> dict[int, tuple[int, int]]:
    starts, words = module.starts, module.words
    lengths = words[starts] >> 16
    indices = np.flatnonzero(_typed_opcodes()[module.opcodes] & (lengths > 2))
    types, results = words[starts[indices] + 1], words[starts[indices] + 2]
    _, first = np.unique(results, return_index=True)
    rows = zip(results[first].tolist(), indices[first].tolist(), types[first].tolist(), strict=True)
    return {result: (index, type_id) for result, index, type_id in rows}


class _Reader:
    def __init__(self, symbols: Symbols, instruction: RawInstruction, bound: int):
        self.symbols = symbols
        self.instruction = instruction
        self.words = instruction.words
        self.bound = bound
        self.at = 1
        self.end = len(self.words)
        self.out: list[RawOperand] = []

    def read_all(self, specs: tuple[Spec, ...]) -> list[RawOperand]:
        self._read(specs)
        if self.at < self.end:
            left = self.end - self.at
            raise self._error(f"{left} words follow the last operand")
        return self.out

    def _error(self, cause: str) -> SPIRVDecodeError:
        return self.instruction.error(cause, self.at)

    def _unknown(self, cause: str) -> SPIRVUnknownError:
        at = self.instruction
        return SPIRVUnknownError(cause, at.offset + self.at, at.index, at.opcode, at.name)

    def _read(self, specs: tuple[Spec, ...]) -> None:
        for spec in specs:
            read = _READERS[spec.form]
            if not spec.quantifier:
                self._need(spec, 1)
                read(self, spec)
            elif spec.quantifier == "?":
                if self.at < self.end:
                    read(self, spec)
            else:
                while self.at < self.end:
                    read(self, spec)

    def _need(self, spec: Spec, words: int) -> None:
        if self.end - self.at < words:
            count = self.end
            raise self._error(f"the instruction ends after {count} words, before its {spec.name}")

    def _take(self, spec: Spec) -> int:
        word = self.words[self.at]
        self.out.append(RawOperand(spec.kind, word, self.at))
        self.at += 1
        return word

    def read_id(self, spec: Spec) -> None:
        word = self.words[self.at]
        if not 0 < word < self.bound:
            # glslang 16.6 writes such an id in debug information. The instruction is kept as words.
            raise self._unknown(f"{spec.name} is {word}: ids are from 1 to {self.bound - 1}")
        self._take(spec)

    def read_integer(self, spec: Spec) -> None:
        self._take(spec)

    def read_string(self, spec: Spec) -> None:
        start = self.at
        for end in range(start, self.end):
            data = self.words[end].to_bytes(4, "little")
            zero = data.find(b"\0")
            if zero >= 0:
                break
        else:
            raise self._error(f"{spec.name} is a string without a zero byte at its end")
        if any(data[zero:]):
            raise self._unknown(f"{spec.name} is a string with nonzero bytes after its end")
        length = 4 * (end - start) + zero
        limit = self.symbols.module.limits.string_bytes
        if length > limit:
            raise self._error(f"{spec.name} is a string of {length} bytes: the limit is {limit}")
        raw = b"".join(w.to_bytes(4, "little") for w in self.words[start : end + 1])
        text = raw[:length].decode("utf-8", "surrogateescape")
        self.out.append(RawOperand(spec.kind, text, start))
        self.at = end + 1

    def _literal(self, spec: Spec, number: NumberType) -> None:
        self._need(spec, number.words)
        value = value_of(self.words[self.at : self.at + number.words], number)
        if value is None:
            raise self._unknown(f"{spec.name} has bits beyond the {number.width} of its type")
        self.out.append(RawOperand(spec.kind, value, self.at, number))
        self.at += number.words

    def read_number(self, spec: Spec) -> None:
        type_id = self.words[1]
        try:
            number = self.symbols.number_type(type_id, self.instruction.index)
        except KeyError:
            raise self._error(
                f"{spec.name} has type %{type_id}, but no earlier scalar type has this id"
            ) from None
        if number is None:
            raise self._unknown(f"{spec.name} has type %{type_id}, which has no literals")
        self._literal(spec, number)

    def read_extended(self, spec: Spec) -> None:
        set_id = int(self.out[-1].value)
        try:
            known = self.symbols.instruction_set(set_id, self.instruction.index)
        except KeyError:
            raise self._error(f"no earlier OpExtInstImport defines %{set_id}") from None
        number = self.words[self.at]
        specs = None if known is None else extended_operand_specs(known, number)
        if known is not None and specs is None:
            raise self._unknown(f"{known} has no instruction {number} in the grammar")
        self._take(spec)
        if specs is not None:
            # More ids than in the grammar are accepted: glslang's DebugEntryPoint has one more.
            self._read(specs)

    def read_opcode(self, spec: Spec) -> None:
        specs = nested_operand_specs(self.words[self.at])
        if specs is None:
            raise self._unknown(
                f"{spec.name} {self.words[self.at]} is not an operation on constants"
            )
        self._take(spec)
        self._read(specs)

    def read_value(self, spec: Spec) -> None:
        table = enum_table(spec.kind)
        word = self.words[self.at]
        if word not in table.names:
            raise self._unknown(f"{word} is not a {spec.kind} of the grammar")
        self._take(spec)
        if word in table.parameters:
            self._read(table.parameters[word])

    def read_mask(self, spec: Spec) -> None:
        table = enum_table(spec.kind)
        word = self.words[self.at]
        bits = [1 << i for i in range(word.bit_length()) if word >> i & 1]
        for bit in bits or [0]:
            if bit not in table.names:
                raise self._unknown(f"bit 0x{bit:x} is not a {spec.kind} of the grammar")
        self._take(spec)
        for bit in bits:
            if bit in table.parameters:
                self._read(table.parameters[bit])

    def read_pair(self, spec: Spec) -> None:
        first, second = spec.parts
        if first.form == "integer" and self.instruction.opcode == opcode_of("OpSwitch"):
            self._case(first)
        else:
            _READERS[first.form](self, first)
        self._need(second, 1)
        _READERS[second.form](self, second)

    def _case(self, spec: Spec) -> None:
        selector = self.words[1]
        try:
            number = self.symbols.selector_type(selector, self.instruction.index)
        except KeyError:
            raise self._error(
                f"the selector %{selector} must be a number that is defined earlier"
            ) from None
        if number is None or number.is_float:
            raise self._error(f"the selector %{selector} must be an integer")
        self._literal(spec, number)


_READERS: Mapping[str, Callable[[_Reader, Spec], None]] = {
    "id": _Reader.read_id,
    "integer": _Reader.read_integer,
    "float": _Reader.read_integer,
    "string": _Reader.read_string,
    "number": _Reader.read_number,
    "extended": _Reader.read_extended,
    "opcode": _Reader.read_opcode,
    "value": _Reader.read_value,
    "mask": _Reader.read_mask,
    "pair": _Reader.read_pair,
}
