"""
Parses and prints properties that are constant instructions in SPIR-V: numbers, Booleans,
enumerants.

They are written in parentheses, `(m = 16, memory_layout = RowMajorNV, transpose = false)`. A
number that is not an i32 is followed by its type. A specialization constant is written as `@name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from xdsl.dialects.builtin import (
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    IntegerType,
    SymbolRefAttr,
    i1,
    i32,
)
from xdsl.ir import Attribute
from xdsl.irdl import AnyOf, AttrConstraint, BaseAttr
from xdsl.parser import Parser
from xdsl.printer import Printer

from xdsl_spirv.dialects.spirv.attributes import EnumerationAttr, as_attribute

Setting: TypeAlias = "int | bool | str | EnumerationAttr[Any] | SymbolRefAttr"
"""The value of a setting for a constructor. A string is the name of a specialization constant."""

Kind: TypeAlias = "type[int | bool | EnumerationAttr[Any]]"

NUMBER: AttrConstraint = AnyOf((BaseAttr(IntegerAttr), FlatSymbolRefAttrConstr))


def enumerant(kind: type[EnumerationAttr[Any]]) -> AttrConstraint:
    """Returns a constraint for an enumerant of a kind, or a specialization constant's symbol."""
    return AnyOf((BaseAttr(kind), FlatSymbolRefAttrConstr))


def parse_settings(parser: Parser, kinds: Mapping[str, Kind]) -> dict[str, Attribute]:
    """Parses `(name = value, ...)`, with all of `kinds` in order."""
    settings: dict[str, Attribute] = {}
    with parser.in_parens():
        for name, kind in kinds.items():
            if settings:
                parser.parse_punctuation(",")
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            settings[name] = _parse_setting(parser, kind)
    return settings


def _parse_setting(parser: Parser, kind: Kind) -> Attribute:
    symbol = parser.parse_optional_symbol_name()
    if symbol is not None:
        return SymbolRefAttr(symbol)
    if kind is bool:
        return as_attribute(parser.parse_boolean())
    if issubclass(kind, EnumerationAttr):
        return kind(kind.parse_enumerant(parser))
    number = parser.parse_integer(allow_boolean=False)
    if not parser.parse_optional_punctuation(":"):
        return as_attribute(number)
    type = parser.parse_type()
    if not isinstance(type, IntegerType):
        parser.raise_error(f"{type} is not a type of integers")
    return IntegerAttr(number, type)


def print_settings(printer: Printer, properties: Mapping[str, Attribute], *names: str) -> None:
    """Prints ` (name = value, ...)`."""
    printer.print_string(" (")
    for index, name in enumerate(names):
        printer.print_string(f"{', ' if index else ''}{name} = ")
        value = properties[name]
        if isinstance(value, EnumerationAttr):
            printer.print_string(value.spell(value.data))
        elif isinstance(value, IntegerAttr) and value.type == i1:
            printer.print_string("true" if value.value.data else "false")
        elif isinstance(value, IntegerAttr):
            printer.print_int(value.value.data)
            if value.type != i32:
                printer.print_string(" : ")
                printer.print_attribute(value.type)
        else:
            printer.print_attribute(value)
    printer.print_string(")")
