"""
Looks up facts of the SPIR-V grammar by name.

No other code states an opcode, an operand's position, a capability or a version: all come from
`core.json` (scripts/generate_grammar.py writes it from Khronos' tables). The table is read at the
first lookup, and entries become objects when they are looked up. Starting up therefore costs a few
milliseconds, and importing this module costs nothing.

    grammar().instruction("OpSDot").opcode
    grammar().kind("Capability")["DotProduct"].extensions
    grammar().implied("BFloat16CooperativeMatrixKHR")
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

Version: TypeAlias = tuple[int, int]
"""Major and minor version of SPIR-V."""

TABLE = Path(__file__).with_name("core.json")

EXTENDED = Path(__file__).with_name("extended.json")
"""File with the instruction sets that few modules import, and the registered generators."""


class Category(StrEnum):
    """The categories of operand kinds. They determine how an operand is encoded in words."""

    ID = "Id"
    LITERAL = "Literal"
    VALUE = "ValueEnum"
    BITS = "BitEnum"
    COMPOSITE = "Composite"


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of an instruction, or one parameter of an enumerant."""

    kind: str
    quantifier: str
    """Empty for exactly one, `?` for at most one, `*` for any number."""
    name: str
    """The operand's name in the grammar. Empty if it has none."""
    field: str
    """The operand's name in snake case. An operand without a name has its kind in snake case."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """Capabilities and extensions that a module must declare to use an instruction or enumerant."""

    capabilities: tuple[str, ...]
    """
    Capabilities that enable the item. One of them is enough. If the item is itself a capability,
    the capabilities that it implies.
    """
    extensions: tuple[str, ...]
    """Extensions that provide the item in versions before `version`. One of them is enough."""
    version: Version | None
    """The first version of SPIR-V that has the item in its core. None if no version has it."""
    last_version: Version | None
    """The last version of SPIR-V that has the item. None unless the item was removed."""


@dataclass(frozen=True, slots=True)
class Instruction(Requirements):
    """An instruction of the core or of an extended instruction set."""

    name: str
    opcode: int
    family: str
    """The instruction's class in the grammar, such as `Arithmetic`."""
    operands: tuple[Operand, ...]
    aliases: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """The operands other than result type and result."""
        return tuple(o for o in self.operands if o.kind not in ("IdResultType", "IdResult"))

    @property
    def has_result(self) -> bool:
        return any(o.kind == "IdResult" for o in self.operands)

    @property
    def has_result_type(self) -> bool:
        return any(o.kind == "IdResultType" for o in self.operands)


@dataclass(frozen=True, slots=True)
class Enumerant(Requirements):
    """One value of an enumeration, or one bit of a mask."""

    name: str
    value: int
    parameters: tuple[Operand, ...]
    aliases: tuple[str, ...]


def snake_case(name: str) -> str:
    """
    Converts a name in the grammar to the name of a field.

    >>> snake_case("Vector 1"), snake_case("ClusterSize"), snake_case("Argument 0, Argument 1, ...")
    ('vector_1', 'cluster_size', 'arguments')
    """
    first, *others = name.split(",")
    if others:
        first = first.rstrip(" 0123456789") + "s"
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", first)
    return "_".join(re.findall(r"[a-z0-9]+", split.lower()))


def _version(text: str | None) -> Version | None:
    if text is None or text == "None":
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


def _requirements(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "capabilities": tuple(row.get("c", ())),
        "extensions": tuple(row.get("e", ())),
        "version": _version(row.get("v", "1.0")),
        "last_version": _version(row.get("l")),
    }


def _operands(rows: list[list[str]]) -> tuple[Operand, ...]:
    """
    Builds the operands. If two operands have the field name `x`, the second one gets the field name
    `x_2`.
    """
    seen: dict[str, int] = {}
    operands: list[Operand] = []
    for row in rows:
        kind, quantifier, name = (*row, "", "")[:3]
        field = snake_case(name or kind)
        seen[field] = seen.get(field, 0) + 1
        if seen[field] > 1:
            field = f"{field}_{seen[field]}"
        operands.append(Operand(kind, quantifier, name, field))
    return tuple(operands)


def _instruction(name: str, row: Mapping[str, Any]) -> Instruction:
    return Instruction(
        name=name,
        opcode=row["n"],
        family=row.get("k", ""),
        operands=_operands(row.get("o", [])),
        aliases=tuple(row.get("a", ())),
        **_requirements(row),
    )


class Kind:
    """An operand kind: an id, a literal, or an enumeration with its enumerants."""

    def __init__(self, name: str, row: Mapping[str, Any]):
        self.name = name
        self.category = Category(row["category"])
        self.bases: tuple[str, ...] = tuple(row.get("bases", ()))
        self._rows: Mapping[str, Any] = row.get("enumerants", {})
        self._made: dict[str, Enumerant] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the enumerants, without aliases, in the grammar's order."""
        return tuple(self._rows)

    @cached_property
    def _by_value(self) -> dict[int, str]:
        return {row["n"]: name for name, row in self._rows.items()}

    @cached_property
    def _by_alias(self) -> dict[str, str]:
        return {a: name for name, row in self._rows.items() for a in row.get("a", ())}

    def __getitem__(self, key: str | int) -> Enumerant:
        """Returns an enumerant by name, alias or value. Raises KeyError if there is none."""
        name = key if isinstance(key, str) else self._by_value[key]
        name = self._by_alias.get(name, name)
        enumerant = self._made.get(name)
        if enumerant is None:
            row = self._rows[name]
            enumerant = self._made[name] = Enumerant(
                name=name,
                value=row["n"],
                parameters=_operands(row.get("p", [])),
                aliases=tuple(row.get("a", ())),
                **_requirements(row),
            )
        return enumerant

    def __contains__(self, key: str | int) -> bool:
        if isinstance(key, int):
            return key in self._by_value
        return key in self._rows or key in self._by_alias

    def used(self, value: int) -> tuple[Enumerant, ...]:
        """
        Returns the enumerants that a value consists of: a single one, or the bits of a mask in
        ascending order.
        """
        if self.category is not Category.BITS or value == 0:
            return (self[value],) if value in self else ()
        return tuple(self[1 << i] for i in range(value.bit_length()) if value >> i & 1)


class Grammar:
    """The grammar tables. `grammar()` returns the only instance."""

    def __init__(self, table: Mapping[str, Any]):
        self.source: str = table["source"]
        self.magic: int = table["magic"]
        major, minor = table["version"]
        self.version: Version = (major, minor)
        self._instructions: Mapping[str, Any] = table["instructions"]
        self._kinds: Mapping[str, Any] = table["kinds"]
        self._extended: Mapping[str, Mapping[str, Any]] = table["extended"]
        self._made: dict[tuple[str | None, str], Instruction] = {}
        self._made_kinds: dict[str, Kind] = {}
        self._implied: dict[str, frozenset[str]] = {}
        self._by_extended_opcode: dict[str, dict[int, str]] = {}

    @property
    def instruction_names(self) -> tuple[str, ...]:
        return tuple(self._instructions)

    @property
    def kind_names(self) -> tuple[str, ...]:
        return tuple(self._kinds)

    @property
    def extended_sets(self) -> tuple[str, ...]:
        """
        Names of the extended instruction sets, as OpExtInstImport states them.

        A name that ends in a full stop is a prefix: a version follows it.
        """
        return (*self._extended, *self._further["extended"])

    @cached_property
    def _further(self) -> Mapping[str, Any]:
        return json.loads(EXTENDED.read_bytes())

    def _extended_rows(self, instruction_set: str) -> Mapping[str, Any]:
        rows = self._extended.get(instruction_set)
        return self._further["extended"][instruction_set] if rows is None else rows

    def extended_set(self, imported: str) -> str | None:
        """
        Returns the instruction set that OpExtInstImport imports under a name. Returns None if it is
        unknown.
        """
        if imported in self._extended:
            return imported
        for name in self._further["extended"]:
            if imported == name or (name.endswith(".") and imported.startswith(name)):
                return name
        return None

    def by_extended_opcode(self, instruction_set: str, opcode: int) -> Instruction | None:
        """
        Returns the instruction with this opcode in an extended set. Returns None if there is none.
        """
        names = self._by_extended_opcode.get(instruction_set)
        if names is None:
            rows = self._extended_rows(instruction_set)
            names = {row["n"]: name for name, row in rows.items()}
            self._by_extended_opcode[instruction_set] = names
        name = names.get(opcode)
        return None if name is None else self.instruction(name, instruction_set)

    def generator(self, tool: int) -> str | None:
        """
        Returns the vendor and tool that are registered for a generator's tool number. Returns None
        if there is none.
        """
        return self._further["generators"].get(str(tool))

    def generator_tool(self, name: str) -> int | None:
        """
        Returns the tool number for which `generator` returns this name. Returns None if there is
        none.
        """
        rows: Mapping[str, str] = self._further["generators"]
        return next((int(tool) for tool, known in rows.items() if known == name), None)

    def extended_names(self, instruction_set: str) -> tuple[str, ...]:
        return tuple(self._extended_rows(instruction_set))

    @cached_property
    def _aliases(self) -> dict[str, str]:
        return {a: n for n, row in self._instructions.items() for a in row.get("a", ())}

    @cached_property
    def _by_opcode(self) -> dict[int, str]:
        return {row["n"]: name for name, row in self._instructions.items()}

    def instruction(self, name: str, instruction_set: str | None = None) -> Instruction:
        """
        Returns an instruction by name or alias. If a set is given, looks it up in this extended
        set. Raises KeyError.
        """
        key = (instruction_set, name)
        entry = self._made.get(key)
        if entry is None:
            rows = (
                self._instructions
                if instruction_set is None
                else self._extended_rows(instruction_set)
            )
            proper = self._aliases.get(name, name) if instruction_set is None else name
            entry = self._made[key] = _instruction(proper, rows[proper])
        return entry

    def __contains__(self, name: str) -> bool:
        return name in self._instructions or name in self._aliases

    def by_opcode(self, opcode: int) -> Instruction | None:
        """Returns the core instruction with this opcode. Returns None if there is none."""
        name = self._by_opcode.get(opcode)
        return None if name is None else self.instruction(name)

    def kind(self, name: str) -> Kind:
        """Returns an operand kind by name (`set/kind` for an extended set). Raises KeyError."""
        entry = self._made_kinds.get(name)
        if entry is None:
            rows = self._further["kinds"] if "/" in name else self._kinds
            entry = self._made_kinds[name] = Kind(name, rows[name])
        return entry

    def implied(self, capability: str) -> frozenset[str]:
        """Returns all capabilities that this capability implies, directly or indirectly."""
        closure = self._implied.get(capability)
        if closure is None:
            direct = self.kind("Capability")[capability].capabilities
            closure = frozenset(direct).union(*(self.implied(c) for c in direct))
            self._implied[capability] = closure
        return closure


@cache
def grammar() -> Grammar:
    """Returns the table. The first call reads it."""
    return Grammar(json.loads(TABLE.read_bytes()))


@cache
def _decorations_by_field() -> dict[str, Enumerant]:
    kind = grammar().kind("Decoration")
    entries = [kind[name] for name in kind.names]
    return {snake_case(name): e for e in entries for name in (e.name, *e.aliases)}


def decoration_of(field: str) -> Enumerant | None:
    """
    Returns the decoration whose name in snake case is `field`. Returns None if there is none.

    >>> decoration_of("descriptor_set").name
    'DescriptorSet'
    """
    return _decorations_by_field().get(field)


def integer_words(value: int, width: int, signed: bool = False) -> list[int]:
    """
    Returns the words of an integer literal of `width` bits, the low word first.

    A narrow literal is sign-extended to a word if `signed`, else zero-extended (SPIR-V 2.2.1).

    >>> integer_words(-1, 8), integer_words(-1, 8, signed=True), integer_words(1 << 32, 64)
    ([255], [4294967295], [0, 1])
    """
    value &= (1 << width) - 1
    if signed and value >> (width - 1):
        value -= 1 << width
    count = max(1, (width + 31) // 32)
    return [value >> 32 * i & 0xFFFFFFFF for i in range(count)]


RULES: Mapping[str, str] = {
    "BFloat16CooperativeMatrixKHR": "BF-03",
    "BFloat16DotProductKHR": "BF-02",
    "BFloat16TypeKHR": "BF-01",
    "CooperativeMatrixKHR": "CM-01",
    "DotProduct": "DOT-02",
    "DotProductInput4x8Bit": "DOT-04",
    "DotProductInput4x8BitPacked": "DOT-03",
    "DotProductInputAll": "DOT-05",
    "GroupNonUniformRotateKHR": "ROT-01",
    "SPV_KHR_bfloat16": "BF-01",
    "SPV_KHR_cooperative_matrix": "CM-01",
    "SPV_KHR_integer_dot_product": "DOT-01",
    "SPV_KHR_subgroup_rotate": "ROT-01",
}
"""Maps a capability or extension to the rule of docs/rules.md that requires it."""

WRITTEN_FOR: Mapping[str, Version] = {
    "SPV_KHR_cooperative_matrix": (1, 6),
    "SPV_KHR_subgroup_rotate": (1, 3),
    "SPV_NV_cooperative_matrix2": (1, 6),
}
"""
Lowest versions of SPIR-V for which the specifications of extensions are written. Drivers also
accept lower versions.
"""
