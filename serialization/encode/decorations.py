"""
Decorations, by the snake-case name that MLIR gives an operation's attribute.

`binding = 0 : i32` on a variable is the decoration Binding with the literal 0, `no_contraction` on
an addition is NoContraction without one. Which names are decorations, and what their parameters
are, the grammar says; nothing here knows a decoration by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntAttr,
    IntegerAttr,
    NoneAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.spirv.attributes import EnumerationAttr
from xdsl_spirv.grammar import Operand, decoration_of, grammar
from xdsl_spirv.serialization.encode.errors import SPIRVEncodeError
from xdsl_spirv.serialization.raw.words import ModuleWords, Section, string_words


def literals(attribute: Attribute, parameters: Sequence[Operand], op: Operation) -> list[int]:
    """
    The words of an enumerant's literal parameters, as one attribute states them.

    Nothing for none; a number, enumerant or string for one; an array for several.
    """
    if isinstance(attribute, UnitAttr | NoneAttr):
        return []
    values = attribute.data if isinstance(attribute, ArrayAttr) else (attribute,)
    words: list[int] = []
    for value, parameter in zip(values, parameters, strict=False):
        words += _literal(value, parameter, op)
    return words


def _is_list(attribute: ArrayAttr[Attribute]) -> bool:
    """Whether an attribute states a decoration several times: a list of lists of parameters."""
    return len(attribute) > 0 and all(isinstance(a, ArrayAttr) for a in attribute.data)


def _literal(value: Attribute, parameter: Operand, op: Operation) -> list[int]:
    if isinstance(value, IntegerAttr):
        return [value.value.data & 0xFFFFFFFF]
    if isinstance(value, IntAttr):
        return [value.data & 0xFFFFFFFF]
    if isinstance(value, EnumerationAttr):
        return [int(value.data)]
    if isinstance(value, StringAttr):
        if parameter.kind == "LiteralString":
            return string_words(value.data)
        kind = grammar().kind(parameter.kind)
        if value.data in kind:
            return [kind[value.data].value]
        raise SPIRVEncodeError(f"{value.data!r} is not a {parameter.kind}", op)
    raise SPIRVEncodeError(f"{value} cannot be a literal of kind {parameter.kind}", op)


class Decorations:
    """
    The annotation section: each decoration of an id once.

    `operand_id` gives the id of a number or of a symbol, for decorations that take ids.
    """

    def __init__(
        self, words: ModuleWords, operand_id: Callable[[Attribute, Operation | None], int]
    ):
        self._words = words
        self._operand_id = operand_id
        self._written: set[tuple[int, ...]] = set()
        table = grammar()
        self._decorate = table.instruction("OpDecorate").opcode
        self._decorate_id = table.instruction("OpDecorateId").opcode
        self._decorate_member = table.instruction("OpMemberDecorate").opcode

    def _add(self, opcode: int, *operands: int) -> None:
        key = (opcode, *operands)
        if key not in self._written:
            self._written.add(key)
            self._words.add(Section.ANNOTATIONS, opcode, operands)

    def add(self, target: int, decoration: int, *values: int) -> None:
        """Decorate an id; the decoration by value, its literals as words."""
        self._add(self._decorate, target, decoration, *values)

    def add_member(self, struct: int, member: int, decoration: int, *values: int) -> None:
        """Decorate a struct's member; the decoration by value."""
        self._add(self._decorate_member, struct, member, decoration, *values)

    def add_attribute(self, target: int, name: str, attribute: Attribute, op: Operation) -> None:
        """
        Decorate an id as an attribute says.

        An attribute of another dialect (`test.note`) says nothing here; any other name must be a
        decoration's.
        """
        decoration = decoration_of(name)
        if decoration is None:
            if "." in name:
                return
            raise SPIRVEncodeError(
                f"the attribute {name!r} is no decoration that SPIR-V knows; remove it, or give it "
                "a dialect's prefix if it is a note",
                op,
            )
        parameters = decoration.parameters
        if isinstance(attribute, ArrayAttr) and _is_list(attribute):
            for one in attribute.data:
                self.add_attribute(target, name, one, op)
            return
        if parameters and parameters[0].kind.startswith("Id"):
            given = attribute.data if isinstance(attribute, ArrayAttr) else (attribute,)
            ids = [self._operand_id(value, op) for value in given]
            self._add(self._decorate_id, target, decoration.value, *ids)
            return
        words = literals(attribute, parameters, op)
        if parameters and not words:
            raise SPIRVEncodeError(f"the decoration {decoration.name} needs a value", op)
        self._add(self._decorate, target, decoration.value, *words)
