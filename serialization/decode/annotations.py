"""
Collects the names and decorations of a module by target id, and expands decoration groups.

A decoration becomes an attribute that the encoder (`encode/types.py`) converts back. The
attribute's name is the decoration's name in snake case. Its value is a number, enumerant, string
or list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, StringAttr, UnitAttr, i32
from xdsl.ir import Attribute

from xdsl_spirv.dialects.keyed import KeyedAttr
from xdsl_spirv.dialects.spirv.abi import CacheControlLoadAttr, CacheControlStoreAttr
from xdsl_spirv.dialects.spirv.enums import Decoration
from xdsl_spirv.grammar import grammar, snake_case
from xdsl_spirv.serialization.decode.module_index import ModuleIndex
from xdsl_spirv.serialization.decode.operations import ENUMERATIONS
from xdsl_spirv.serialization.raw.operands import RawOperand

DECORATE = ("OpDecorate", "OpDecorateId", "OpDecorateString")
MEMBER = ("OpMemberDecorate", "OpMemberDecorateString", "OpMemberDecorateIdEXT")
PLAIN = ("BuiltIn",)
"""Kinds of operands whose enumerants are strings in MLIR."""


CACHE_CONTROLS: dict[int, type[KeyedAttr]] = {
    Decoration.CacheControlLoadINTEL: CacheControlLoadAttr,
    Decoration.CacheControlStoreINTEL: CacheControlStoreAttr,
}
"""
Maps a decoration to the class of MLIR's attribute for it. All such decorations of an id form one
list.
"""


class Note(NamedTuple):
    """A decoration of an id or of a struct's member."""

    row: int
    instruction: str
    decoration: int
    parameters: tuple[RawOperand, ...]

    def literal(self) -> int | None:
        """Returns the decoration's first parameter. Returns None if it has no parameters."""
        return int(self.parameters[0].value) if self.parameters else None

    def is_number(self) -> bool:
        """True if the decoration has no parameter, or a single number as parameter (not an id)."""
        return len(self.parameters) <= 1 and all(
            isinstance(p.value, int) and not p.kind.startswith("Id") for p in self.parameters
        )


class Annotations:
    """The names and decorations of a module's ids and struct members."""

    def __init__(self, index: ModuleIndex):
        self.index = index
        self.names: dict[int, str] = {}
        self.member_names: dict[int, list[tuple[int, int, str]]] = {}
        """
        Maps a struct's id to a list of names of its members: instruction index, member index and
        name.
        """
        self.notes: dict[int, list[Note]] = {}
        self.member_notes: dict[int, list[tuple[int, Note]]] = {}
        """
        Maps a struct's id to a list of decorations of its members: member index and decoration.
        """
        self._known: set[tuple[int, int, tuple[tuple[str, int | str], ...]]] = set()
        """Target id, decoration and parameters of every decoration. Serves to find duplicates."""
        self._spread = 0
        """Number of decorations that groups have applied so far."""
        handlers: dict[str, Callable[[int], None]] = {
            "OpName": self._name,
            "OpMemberName": self._member_name,
            "OpGroupDecorate": self._group,
            "OpGroupMemberDecorate": self._member_group,
            **{name: self._decorate for name in DECORATE},
            **{name: self._decorate_member for name in MEMBER},
        }
        opcodes = {grammar().instruction(n).opcode: h for n, h in handlers.items()}
        for row in range(index.first_function):
            handler = opcodes.get(index.opcodes[row])
            if handler is not None:
                index.at = row
                handler(row)

    def _name(self, row: int) -> None:
        words = self.index.rows[row]
        name = self.index.string(words, 2)
        if name:
            self.names.setdefault(self.index.word(words, 1), name)

    def _member_name(self, row: int) -> None:
        words = self.index.rows[row]
        struct, member = self.index.word(words, 1), self.index.word(words, 2)
        name = self.index.string(words, 3)
        self.member_names.setdefault(struct, []).append((row, member, name))

    def _decorate(self, row: int) -> None:
        target, decoration, *parameters = self.index.raw[row].operands
        name = self.index.name(row) or ""
        note = Note(row, name, int(decoration.value), tuple(parameters))
        self._add(int(target.value), note)

    def _add(self, target: int, note: Note) -> None:
        words = tuple((p.kind, p.value) for p in note.parameters)
        known = len(self._known)
        self._known.add((target, note.decoration, words))
        if len(self._known) > known:
            self.notes.setdefault(target, []).append(note)

    def _decorate_member(self, row: int) -> None:
        struct, member, decoration, *parameters = self.index.raw[row].operands
        name = self.index.name(row) or ""
        note = Note(row, name, int(decoration.value), tuple(parameters))
        self.member_notes.setdefault(int(struct.value), []).append((int(member.value), note))

    def _group(self, row: int) -> None:
        group, *targets = self.index.rows[row][1:] or (0,)
        notes = tuple(self.notes.get(group, ()))
        self._spend(len(notes) * len(targets))
        for target in targets:
            for note in notes:
                self._add(target, note)

    def _member_group(self, row: int) -> None:
        group, *targets = self.index.rows[row][1:] or (0,)
        self._spend(len(self.notes.get(group, ())) * len(targets) // 2)
        for struct, member in zip(targets[::2], targets[1::2], strict=False):
            for note in self.notes.get(group, ()):
                name = note.instruction.replace("OpDecorate", "OpMemberDecorate")
                name = "OpMemberDecorateIdEXT" if name == "OpMemberDecorateId" else name
                self.member_notes.setdefault(struct, []).append(
                    (member, note._replace(instruction=name))
                )

    def _spend(self, decorations: int) -> None:
        limit = self.index.raw.limits.group_decorations
        self._spread += decorations
        if self._spread > limit:
            raise self.index.error(f"decoration groups expand to more than {limit} decorations")

    def find(self, id: int, decoration: Decoration) -> Note | None:
        """Returns an id's first decoration of this kind. Returns None without such a decoration."""
        for note in self.notes.get(id, ()):
            if note.decoration == decoration:
                return note
        return None

    def attributes(
        self, id: int, operand: Callable[[int], Attribute], but: Sequence[Decoration] = ()
    ) -> dict[str, Attribute]:
        """
        Returns an id's decorations as attributes, in the module's order. Leaves out the decorations
        `but`.

        If a decoration's parameter is an id, `operand` converts it to an attribute.
        """
        attributes: dict[str, Attribute] = {}
        lists: dict[str, list[Attribute]] = {}
        for note in self.notes.get(id, ()):
            if note.decoration in but:
                continue
            self.index.at = note.row
            field = snake_case(grammar().kind("Decoration")[note.decoration].name)
            values = [self._parameter(p, operand) for p in note.parameters]
            control = CACHE_CONTROLS.get(note.decoration)
            whole: Attribute = ArrayAttr(values)
            if control is not None:
                whole = control.new([IntAttr(note.literal() or 0), *values[1:]])
            lists.setdefault(field, []).append(whole)
            if len(lists[field]) > 1 or control is not None:
                attributes[field] = ArrayAttr(lists[field])
            elif not values:
                attributes[field] = UnitAttr()
            else:
                attributes[field] = values[0] if len(values) == 1 else ArrayAttr(values)
        return attributes

    def _parameter(self, parameter: RawOperand, operand: Callable[[int], Attribute]) -> Attribute:
        value, kind = parameter.value, parameter.kind
        if isinstance(value, str):
            return self.index.text(value)
        if kind.startswith("Id"):
            return operand(value)
        if kind in PLAIN:
            return StringAttr(grammar().kind(kind)[value].name)
        attribute = ENUMERATIONS.get(kind)
        if attribute is not None:
            return attribute(attribute.ENUM(value))  # pyright: ignore[reportArgumentType]
        return IntegerAttr(value - (1 << 32) if value >> 31 else value, i32)
