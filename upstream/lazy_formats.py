"""
Parses declarative assembly formats when an operation is first parsed or printed.

xDSL parses an operation's format when its class is created. The `spirv` dialect has some 300
formats, of which a module uses 30. Parsing all of them takes a quarter of the dialect's import
time. The dialects of xDSL that a matmul needs have 140. A pull request to xDSL would store the text
in `get_accessors_from_op_def`, and run `FormatProgram.from_str` in a cached property.

A wrong format is then reported only when it is used, so a test of the dialect uses every format
(tests/dialects/test_declarations.py). Classes of other packages do not change.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from xdsl.irdl import IRDLOperation, OpDef
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Span

from xdsl_spirv.upstream.repeated_lines import parse_repeated

_parse_format, _read_class = FormatProgram.from_str, OpDef.from_pyrdl

OURS = ("xdsl.", "xdsl_spirv.")
"""Packages whose formats are parsed late. Tests parse all of these formats."""


class MisfitError(ParseError, VerifyException):
    """Error, with its location, for a type that a constraint of a format rejects."""


class LazyFormat:
    """A `FormatProgram` that is parsed from its text at its first use."""

    def __init__(self, text: str, op_def: OpDef):
        self.text = text
        self.op_def = op_def

    @cached_property
    def program(self) -> FormatProgram:
        """The parsed format. Raises xDSL's `ParseError` if the text is wrong."""
        return _parse_format(self.text, self.op_def)

    def parse(self, parser: Parser, op_type: type[IRDLOperation]) -> IRDLOperation:
        """Parses an operation in this format. Raises `MisfitError` if a constraint fails."""
        start = parser.pos
        try:
            return parse_repeated(parser, op_type, self.program.parse)
        except VerifyException as error:
            raise MisfitError(Span(start, parser.pos, parser.lexer.input), str(error)) from error

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        """Prints an operation in this format."""
        self.program.print(printer, op)


def _note_package(cls: type[Any]) -> OpDef:
    """
    Replaces `OpDef.from_pyrdl`. Also records whether the class belongs to xDSL or this package.
    """
    definition = _read_class(cls)
    vars(definition)["lazy_format"] = cls.__module__.startswith(OURS)
    return definition


def _make_format(text: str, op_def: OpDef) -> FormatProgram | LazyFormat:
    """
    Replaces `FormatProgram.from_str`. Returns a lazy format for classes of xDSL and this package.
    """
    lazy = vars(op_def).get("lazy_format", False)
    return LazyFormat(text, op_def) if lazy else _parse_format(text, op_def)


def install() -> None:
    """
    Makes the formats of operations lazy. Applies to operations of xDSL and of this package that are
    declared later.
    """
    setattr(OpDef, "from_pyrdl", staticmethod(_note_package))
    setattr(FormatProgram, "from_str", staticmethod(_make_format))
