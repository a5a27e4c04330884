"""
Parses and prints properties that are constant instructions in SPIR-V: numbers, Booleans,
enumerants.

They are written in parentheses, `(m = 16, memory_layout = RowMajorNV, transpose = false)`. If a
number is not an i32, its type follows. A specialization constant is written as `@name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import FlatSymbolRefAttrConstr, IntegerAttr, IntegerType, i32
from xdsl.ir import Attribute
from xdsl.irdl import AnyOf, AttrConstraint, BaseAttr
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from xdsl_spirv.dialects.keyed import Spelling, or_symbol
from xdsl_spirv.dialects.spirv.attributes import EnumerationAttr, as_attribute

NUMBER: AttrConstraint = AnyOf((BaseAttr(IntegerAttr), FlatSymbolRefAttrConstr))


def enumerant(kind: type[EnumerationAttr[Any]]) -> AttrConstraint:
    """
    Returns a constraint for a property that is an enumerant of a kind, or a specialization
    constant's symbol.
    """
    return AnyOf((BaseAttr(kind), FlatSymbolRefAttrConstr))


def _parse_integer(parser: AttrParser) -> Attribute:
    number = parser.parse_integer(allow_boolean=False)
    if not parser.parse_optional_punctuation(":"):
        return as_attribute(number)
    type = parser.parse_type()
    if not isinstance(type, IntegerType):
        parser.raise_error(f"{type} is not a type of integers")
    return IntegerAttr(number, type)


def _print_integer(printer: Printer, value: IntegerAttr) -> None:
    printer.print_int(value.value.data)
    if value.type != i32:
        printer.print_string(" : ")
        printer.print_attribute(value.type)


INTEGER: Spelling = _parse_integer, _print_integer
"""The spelling `16`, or `16 : i64` for another type than i32."""


def parse_settings(parser: Parser, spellings: Mapping[str, Spelling]) -> dict[str, Attribute]:
    """Parses `(name = value, ...)`, with all of `spellings` in order."""
    settings: dict[str, Attribute] = {}
    with parser.in_parens():
        for name, spelling in spellings.items():
            if settings:
                parser.parse_punctuation(",")
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            settings[name] = or_symbol(spelling)[0](parser)
    return settings


def print_settings(
    printer: Printer, properties: Mapping[str, Attribute], spellings: Mapping[str, Spelling]
) -> None:
    """Prints ` (name = value, ...)`."""
    printer.print_string(" (")
    for index, (name, spelling) in enumerate(spellings.items()):
        printer.print_string(f"{', ' if index else ''}{name} = ")
        or_symbol(spelling)[1](printer, properties[name])
    printer.print_string(")")
