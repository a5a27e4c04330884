"""
Declarative assembly formats are parsed when an operation is first parsed or printed.

xDSL parses an operation's format when its class is made. The `spirv` dialect has some 300 of them,
of which a module uses 30: a quarter of the time that importing the dialect takes. The dialects of
xDSL that a matmul needs have 140. The pull request: `get_accessors_from_op_def` keeps the text, and
`FormatProgram.from_str` runs in a cached property of its result. A format with a mistake is then
reported when it is used, so a test of the dialect uses every one
(tests/dialects/test_declarations.py). Classes of other packages keep xDSL's way.
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
"""Packages whose formats are tested, and so known to be right."""


class MisfitError(ParseError, VerifyException):
    """
    Raised if a constraint refuses a type in a format, with its place. A VerifyException for xDSL.
    """


class LazyFormat:
    """A `FormatProgram` that is made of its text when it is first needed."""

    def __init__(self, text: str, op_def: OpDef):
        self.text = text
        self.op_def = op_def

    @cached_property
    def program(self) -> FormatProgram:
        """The format; raises xDSL's `ParseError` if its text has none."""
        return _parse_format(self.text, self.op_def)

    def parse(self, parser: Parser, op_type: type[IRDLOperation]) -> IRDLOperation:
        """As `FormatProgram.parse`. Raises `MisfitError` if a constraint refuses something."""
        start = parser.pos
        try:
            return parse_repeated(parser, op_type, self.program.parse)
        except VerifyException as error:
            raise MisfitError(Span(start, parser.pos, parser.lexer.input), str(error)) from error

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        """As `FormatProgram.print`."""
        self.program.print(printer, op)


def _note_package(cls: type[Any]) -> OpDef:
    """As `OpDef.from_pyrdl`; also records whether the class is xDSL's or ours."""
    definition = _read_class(cls)
    vars(definition)["lazy_format"] = cls.__module__.startswith(OURS)
    return definition


def _make_format(text: str, op_def: OpDef) -> FormatProgram | LazyFormat:
    """
    As `FormatProgram.from_str`, but parses later if the package is known to be right. Else raises
    `ParseError`.
    """
    lazy = vars(op_def).get("lazy_format", False)
    return LazyFormat(text, op_def) if lazy else _parse_format(text, op_def)


def install() -> None:
    """Make lazy the formats of operations of xDSL and of ours that are declared from now on."""
    setattr(OpDef, "from_pyrdl", staticmethod(_note_package))
    setattr(FormatProgram, "from_str", staticmethod(_make_format))
