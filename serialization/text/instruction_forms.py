"""
Prints all instructions of one form together, column by column.

Instructions have the same form if they agree in opcode, length and deciding words. A deciding word
determines how other words are read (`Shape.deciding`): an enumerant with parameters, a constant's
type, the instruction of an extended set. Each operand word of a form is a column with a table from
word to text, and one template prints all lines. Forms with a word that a table cannot print (a
string, a number of several words) have no columns: their instructions are printed one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw.literals import NumberType, format_number, value_of
from xdsl_spirv.serialization.raw.operands import (
    Spec,
    enum_table,
    extended_operand_specs,
    nested_operand_specs,
    operand_specs,
)

if TYPE_CHECKING:
    from xdsl_spirv.serialization.raw.operands import Symbols

Column: TypeAlias = Mapping[int, str] | None
"""
Table from an operand word to its text, or None for an id. The table raises `KeyError` for an
unknown word.
"""

NUMBERED_SETS = re.compile(
    r"NonSemantic\.(DebugPrintf|DebugBreak|Graph\..*|Shader\.DebugInfo\.(?!100$).*)"
)
"""
Pattern of the instruction sets whose instructions are printed as numbers.

Assemblers of 2025 cannot read the names of these instructions. Newer assemblers read names and
numbers.
"""

UNREADABLE_KINDS = frozenset(("InitializationModeQualifier",))
"""Enumerations whose names `spirv-as` cannot read, although its tables contain them."""


FEW = 32
"""Number of operand words above which `operand_columns` does not cache its result."""


class _Integers(dict[int, str]):
    def __missing__(self, key: int) -> str:
        return str(key)


_INTEGERS = _Integers()


class _Masks(dict[int, str]):
    """Maps a mask without parameters to its text. Raises `KeyError` for other masks."""

    def __init__(self, kind: str):
        super().__init__()
        self._kind = kind
        table = enum_table(kind)
        self._most = 1 if kind == "MemoryAccess" else len(table.names)
        self._plain = sum(v for v in table.names if v not in table.parameters)

    def __missing__(self, key: int) -> str:
        # The slow path prints masks of several names, some of which `spirv-as` cannot read.
        if key & ~self._plain or key.bit_count() > self._most:
            raise KeyError(key)
        text = self[key] = enumerants(self._kind, key)
        return text


class _Numbers(dict[int, str]):
    """Maps a number of one word to its text. Raises `KeyError` for bits beyond the type's width."""

    def __init__(self, number: NumberType):
        super().__init__()
        self._number = number

    def __missing__(self, key: int) -> str:
        value = value_of([key], self._number)
        if value is None:
            raise KeyError(key)
        text = self[key] = format_number(value, self._number)
        return text


@cache
def enumerants(kind: str, value: int) -> str:
    """
    Returns the name of an enumerant. For a mask, returns its names joined by `|`, from the lowest
    bit.
    """
    names = enum_table(kind).names
    if value in names:
        return names[value]
    return "|".join(names[1 << i] for i in range(value.bit_length()) if value >> i & 1)


def opcode_name(opcode: int) -> str:
    """Returns the name of the opcode in an OpSpecConstantOp, without the prefix `Op`."""
    entry = grammar().by_opcode(opcode)
    return str(opcode) if entry is None else entry.name.removeprefix("Op")


def extended_name(symbols: Symbols, set_id: int, number: int, index: int) -> str:
    """
    Returns the name of an extended instruction. Returns its number if the set is unknown or in
    `NUMBERED_SETS`.
    """
    known = symbols.instruction_set(set_id, index)
    if known is None or NUMBERED_SETS.fullmatch(symbols.imports[set_id]):
        return str(number)
    entry = grammar().by_extended_opcode(known, number)
    return str(number) if entry is None else entry.name


class Shape:
    """Facts from the grammar that determine how instructions with one opcode are printed."""

    def __init__(self, opcode: int):
        specs = operand_specs(opcode)
        entry = grammar().by_opcode(opcode)
        self.known = specs is not None
        self.specs = specs or ()
        self.name = entry.name if entry else ""
        self.takes_more = _takes_more(self.specs)
        """True if an assembler would read a word after the instruction as a further operand."""
        self.result = next((i for i, s in enumerate(self.specs) if s.kind == "IdResult"), None)
        kinds = {spec.kind for spec in self.specs}
        self.fussy = bool(kinds & {"MemoryAccess", "Decoration"})
        """True if `spirv-as` cannot always read the instruction as `spirv-dis` prints it."""
        self.extended = "LiteralExtInstInteger" in kinds
        single = [s.form == "id" and s.quantifier != "*" for s in self.specs]
        self.ids = [*single, False].index(False)
        """Number of ids with which the operands begin."""
        self.deciding = _deciding(self.specs)
        """Indices of the words that determine how other words are read."""

    def template(self, margin: str, pad: int, columns: int) -> str:
        """
        Returns a `%` template for lines with `columns` operands. The result's text comes first.
        """
        if self.result is None:
            return " ".join([margin + self.name, *["%s"] * columns])
        return " ".join([f"%{pad}s = {self.name}", *["%s"] * (columns - 1)])


def _deciding(specs: Sequence[Spec]) -> tuple[int, ...]:
    for place, spec in enumerate(specs, 1):
        if spec.form == "number":
            return (1,)
        if spec.form == "extended":
            return (place - 1, place)
        if spec.form == "opcode" or (
            spec.form in ("value", "mask") and enum_table(spec.kind).parameters
        ):
            return (place,)
        if spec.quantifier == "*" or _simple(spec) is None:
            return ()
    return ()


@cache
def _simple(spec: Spec) -> tuple[Column] | None:
    """
    Returns a tuple with the column for a word. Returns None if a column cannot print the word.
    """
    if spec.form == "id":
        return (None,)
    if spec.form == "integer":
        return (_INTEGERS,)
    if spec.kind in UNREADABLE_KINDS:
        return None
    if spec.form == "value":
        table = enum_table(spec.kind)
        return ({v: n for v, n in table.names.items() if v not in table.parameters},)
    if spec.form == "mask":
        return (_Masks(spec.kind),)
    return None


@cache
def shape(opcode: int) -> Shape:
    return Shape(opcode)


class Decided(NamedTuple):
    """The words of an instruction that determine how its other words are read."""

    words: Mapping[int, int]
    """Maps the index of a deciding word in the instruction to the word."""
    symbols: Symbols
    first: int
    """Index of the first instruction that has the form."""


def operand_columns(of: Shape, count: int, decided: Decided | None) -> list[Column] | None:
    """
    Returns `count` tables, each from an operand word to its text. Returns None if a table cannot
    print a word (part of a string, for example).
    """
    tables: list[Column] = []
    waiting = list(reversed(of.specs))
    while len(tables) < count:
        if not waiting:
            return None
        spec = waiting.pop()
        place = len(tables) + 1
        if decided and place in decided.words and spec.form != "id":
            settled = _settle(spec, decided, place)
            if settled is None:
                return None
            text, further = settled
            tables.append({decided.words[place]: text})
            waiting += reversed(further)
            continue
        if spec.form == "number":
            number = _number(decided)
            if number is None:
                return None
            tables.append(number)
            continue
        # The literals of OpSwitch's pairs are as wide as its selector.
        if spec.kind == "PairLiteralIntegerIdRef":
            return None
        if spec.quantifier == "*":
            waiting.append(spec)
        for part in spec.parts or (spec,):
            simple = _simple(part)
            if simple is None:
                return None
            tables.append(simple[0])
    complete = len(tables) == count and all(s.quantifier for s in waiting)
    return tables if complete and of.known else None


@lru_cache(maxsize=512)
def _undecided_columns(opcode: int, count: int) -> list[Column] | None:
    return operand_columns(shape(opcode), count, None)


def _number(decided: Decided | None) -> Column:
    if decided is None:
        return None
    try:
        number = decided.symbols.number_type(decided.words[1], decided.first)
    except KeyError:
        return None
    return None if number is None or number.words != 1 else _Numbers(number)


def _settle(spec: Spec, decided: Decided, place: int) -> tuple[str, Sequence[Spec]] | None:
    """
    Returns the text of a deciding word, and the specs of the operands that it adds. Returns None if
    the word is unknown.
    """
    value = decided.words[place]
    if spec.form == "opcode":
        specs = nested_operand_specs(value)
        return None if specs is None else (opcode_name(value), specs)
    if spec.form == "extended":
        set_id = decided.words[place - 1]
        try:
            known = decided.symbols.instruction_set(set_id, decided.first)
        except KeyError:
            return None
        specs = None if known is None else extended_operand_specs(known, value)
        if specs is None:
            return None
        return extended_name(decided.symbols, set_id, value, decided.first), specs
    table = enum_table(spec.kind)
    if value not in table.names or spec.kind in UNREADABLE_KINDS:
        return None
    return table.names[value], table.parameters.get(value, ())


def _takes_more(specs: Sequence[Spec]) -> bool:
    if not specs:
        return False
    last = specs[-1]
    if last.form in ("value", "mask"):
        return bool(last.quantifier or enum_table(last.kind).parameters)
    return bool(last.quantifier) or last.form in ("extended", "opcode")


MAX_FORMS = 1000
"""
Number of cached `Form` objects at which the cache is emptied. Only modules of random bytes have so
many forms.
"""


class Form:
    """The collected instructions of one form: with equal opcode, length and deciding words."""

    __slots__ = ("columns", "deciding", "inner", "places", "rows", "shape", "template")

    def __init__(self, shaped: Shape, deciding: tuple[int, ...] = ()):
        self.shape = shaped
        self.deciding = deciding
        self.inner: dict[tuple[int, ...], Form] = {}
        """
        Maps deciding words to the form that has them. Empty if the opcode has no deciding word.
        """
        self.columns: list[Column] | None = None
        self.template = ""
        self.places: list[int] = []
        self.rows: list[list[int]] = []

    def take(self) -> tuple[list[int], list[list[int]]]:
        """Returns the indices and words of the collected instructions. Empties both lists."""
        taken = self.places, self.rows
        self.places, self.rows = [], []
        return taken


class Forms:
    """Finds the `Form` of each instruction of a module."""

    def __init__(self, symbols: Symbols, margin: str, pad: int):
        self.symbols = symbols
        self.margin = margin
        self.pad = pad
        self.known: dict[int, Form] = {}
        self.count = 0

    def sort(self, rows: Iterable[list[int]], start: int) -> list[Form]:
        """
        Groups instructions by `Form`. `rows` are their words. `start` is the index of the first
        instruction.
        """
        if self.count > MAX_FORMS:
            self.known, self.count = {}, 0
        known = self.known
        forms: list[Form] = []
        for place, words in enumerate(rows, start):
            form = known.get(words[0])
            if form is None:
                form = known[words[0]] = self._form(words, place)
                self.count += 1
            if form.deciding:
                key = tuple([words[p] for p in form.deciding])
                inner = form.inner.get(key)
                if inner is None:
                    decided = dict(zip(form.deciding, key, strict=True))
                    inner = form.inner[key] = Form(form.shape)
                    laid_out = operand_columns(
                        form.shape, len(words) - 1, Decided(decided, self.symbols, place)
                    )
                    self._lay_out(inner, len(words) - 1, laid_out)
                    self.count += 1
                form = inner
            if not form.places:
                forms.append(form)
            form.places.append(place)
            form.rows.append(words)
        return forms

    def _form(self, words: list[int], place: int) -> Form:
        shaped = shape(words[0] & 0xFFFF)
        decidable = bool(shaped.deciding) and max(shaped.deciding) < len(words)
        form = Form(shaped, shaped.deciding if decidable else ())
        if not decidable:
            count = len(words) - 1
            few = count < FEW
            laid_out = (
                _undecided_columns(words[0] & 0xFFFF, count)
                if few
                else operand_columns(shaped, count, None)
            )
            self._lay_out(form, count, laid_out)
        return form

    def _lay_out(self, form: Form, count: int, tables: list[Column] | None) -> None:
        form.columns = tables
        form.template = (
            form.shape.template(self.margin, self.pad, count) if tables is not None else ""
        )
