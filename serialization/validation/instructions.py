"""
Represents an instruction for the rules, with operands accessible by the grammar's names.

Most instructions have only ids as operands, and each id is one word. The grammar's reader decodes
literals, strings and enumerants with parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from xdsl_spirv.grammar import Instruction as GrammarInstruction
from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw.binary import RawInstruction, RawModule
from xdsl_spirv.serialization.raw.operands import RawOperand, enum_table, operand_specs

if TYPE_CHECKING:
    from xdsl_spirv.serialization.validation.flow import Block

ID_KINDS = frozenset({"IdRef", "IdResultType", "IdResult", "IdScope", "IdMemorySemantics"})


@dataclass(frozen=True, slots=True)
class Shape:
    """The grammar's facts about an opcode, stored for fast access."""

    name: str
    """The instruction's name without `Op`. For an unknown opcode, its number as text."""
    entry: GrammarInstruction | None
    has_type: bool
    result_at: int
    """Index of the word with the result id. 0 if the instruction has no result."""
    places: Mapping[str, int]
    """
    Maps the name of an operand to the index of its word. Only has operands at a fixed position.
    """
    least: int
    """Minimum number of words of the instruction, including the first word."""
    plain: int
    """Number of words up to which all operands of the instruction are ids."""
    kinds: tuple[str, ...]
    """Kinds of the operands at fixed positions, in order."""


@cache
def shape(opcode: int) -> Shape:
    """Returns the grammar's facts about an opcode."""
    entry = grammar().by_opcode(opcode)
    specs = operand_specs(opcode)
    if entry is None or specs is None:
        return Shape(str(opcode), None, False, 0, {}, 1, 0, ())
    places: dict[str, int] = {}
    kinds: list[str] = []
    for place, (operand, spec) in enumerate(zip(entry.operands, specs, strict=True), 1):
        places[operand.field] = place
        kinds.append(spec.kind)
        # The positions of further operands depend on the instruction.
        if operand.quantifier == "*" or spec.form in ("string", "number", "extended", "opcode"):
            break
        if spec.form in ("value", "mask") and enum_table(spec.kind).parameters:
            break
    required = sum(not o.quantifier for o in entry.operands)
    leading = next((k for k, s in enumerate(specs) if s.form != "id"), len(specs))
    endless = any(s.quantifier == "*" for s in specs[:leading])
    return Shape(
        name=entry.name.removeprefix("Op"),
        entry=entry,
        has_type=entry.has_result_type,
        result_at=next((k for k, o in enumerate(entry.operands, 1) if o.kind == "IdResult"), 0),
        places=places,
        least=required + 1,
        plain=0xFFFF if endless else leading + 1,
        kinds=tuple(kinds),
    )


class Instruction(RawInstruction):
    """An instruction with its shape, type id and result id (0 if absent), and block."""

    __slots__ = ("block", "op", "plain", "read", "result", "shape", "sound", "type_id")

    def __init__(self, module: RawModule, index: int, words: list[int]):
        self.module = module
        self.index = index
        self.words = words
        self.shape = known_shape = shape(words[0] & 0xFFFF)
        self.op = known_shape.name
        """The instruction's name without `Op`."""
        count = len(words)
        self.type_id = words[1] if known_shape.has_type and count > 1 else 0
        self.result = words[known_shape.result_at] if 0 < known_shape.result_at < count else 0
        self.block: Block | None = None
        self.plain = known_shape.least <= count <= known_shape.plain
        """True if all operands are ids."""
        self.read: list[RawOperand] | None = None
        """
        The operands as the grammar's reader decodes them. None if all operands are ids, or decoding
        failed.
        """
        self.sound = True
        """False if the grammar's reader cannot decode the operands."""

    def get(self, field: str) -> int:
        """
        Returns the word of an operand at a fixed position. Returns 0 if the operand is absent.
        """
        place = self.shape.places[field]
        return self.words[place] if place < len(self.words) else 0

    def rest(self, field: str) -> list[int]:
        """Returns the words from an operand (at a fixed position) to the end of the instruction."""
        return self.words[self.shape.places[field] :]

    def values(self, kind: str) -> list[int]:
        """Returns the values of all operands of a kind."""
        return [int(o.value) for o in self.read or () if o.kind == kind]

    def ids(self) -> list[int]:
        """
        Returns every id that the instruction uses: the result type and the id operands, but not the
        result.
        """
        if self.read is not None:
            return [int(o.value) for o in self.read if o.kind in ID_KINDS and o.kind != "IdResult"]
        if not self.plain:
            return []
        result = self.shape.result_at
        return self.words[1:result] + self.words[result + 1 :]

    def named_types(self) -> list[int]:
        """
        Returns the ids of the operands that must be types according to the grammar, except the
        result type.
        """
        named = self.shape.places.items()
        places = [p for field, p in named if field.endswith("type") and field != "id_result_type"]
        return [self.words[place] for place in places if place < len(self.words)]

    def __repr__(self) -> str:
        return f"<Op{self.op} at {self.index}>"
