"""
One instruction for the rules: its words by the names of the grammar's operands. Most instructions
only have ids, which are the words themselves. Literals, strings and enumerants with parameters are
decoded by the grammar's reader.
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
    """The grammar's facts of an opcode, ready for use."""

    name: str
    """The name without `Op`; the number of an unknown opcode."""
    entry: GrammarInstruction | None
    has_type: bool
    result_at: int
    """The word of the result, 0 without one."""
    places: Mapping[str, int]
    """Operand -> its word, if it is at a fixed position."""
    least: int
    """Words of the shortest such instruction, itself counted."""
    plain: int
    """Number of words up to which such an instruction only has ids."""
    kinds: tuple[str, ...]
    """The operands' kinds at fixed places, from word 1 on."""


@cache
def shape(opcode: int) -> Shape:
    """The shape of an opcode's instructions."""
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
    """An instruction with its shape, its type and result ids (0 without), and its block."""

    __slots__ = ("block", "op", "plain", "read", "result", "shape", "sound", "type_id")

    def __init__(self, module: RawModule, index: int, words: list[int]):
        self.module = module
        self.index = index
        self.words = words
        self.shape = known_shape = shape(words[0] & 0xFFFF)
        self.op = known_shape.name
        """The name without `Op`."""
        count = len(words)
        self.type_id = words[1] if known_shape.has_type and count > 1 else 0
        self.result = words[known_shape.result_at] if 0 < known_shape.result_at < count else 0
        self.block: Block | None = None
        self.plain = known_shape.least <= count <= known_shape.plain
        """True if the words are only ids."""
        self.read: list[RawOperand] | None = None
        """
        The operands as the grammar reads them; None if there are only ids, or they cannot be read.
        """
        self.sound = True
        """True if the grammar can read the operands."""

    def get(self, field: str) -> int:
        """The word of an operand at a fixed place, 0 if the instruction ends before it."""
        place = self.shape.places[field]
        return self.words[place] if place < len(self.words) else 0

    def rest(self, field: str) -> list[int]:
        """The words from an operand on."""
        return self.words[self.shape.places[field] :]

    def values(self, kind: str) -> list[int]:
        """The values of all operands of a kind, as the grammar reads them."""
        return [int(o.value) for o in self.read or () if o.kind == kind]

    def ids(self) -> list[int]:
        """Every id used: type and operands, not the result."""
        if self.read is not None:
            return [int(o.value) for o in self.read if o.kind in ID_KINDS and o.kind != "IdResult"]
        if not self.plain:
            return []
        result = self.shape.result_at
        return self.words[1:result] + self.words[result + 1 :]

    def named_types(self) -> list[int]:
        """Returns the operands that are types, by the names of the operands."""
        named = self.shape.places.items()
        places = [p for field, p in named if field.endswith("type") and field != "id_result_type"]
        return [self.words[place] for place in places if place < len(self.words)]

    def __repr__(self) -> str:
        return f"<Op{self.op} at {self.index}>"
