"""
Declarative assembly formats are parsed when an operation is first parsed or printed.

xDSL parses an operation's format when its class is made. The `spirv` dialect has some 300 of them,
of which a module uses 30: a quarter of the time that importing the dialect takes. The dialects of
xDSL that a matmul needs have 140. The pull request: `get_accessors_from_op_def` keeps the text, and
`FormatProgram.from_str` runs in a cached property of its result. A format with a mistake is then
reported when it is used, so a test of the dialect uses every one
(tests/dialects/test_declarations.py).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from xdsl.irdl import IRDLOperation, OpDef
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.upstream.repeated_lines import parse_repeated

_parse_format = FormatProgram.from_str


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
        """As `FormatProgram.parse`; a type that a constraint refuses is an error with a place."""
        start = parser.pos
        try:
            return parse_repeated(parser, op_type, self.program.parse)
        except VerifyException as error:
            parser.raise_error(str(error), start, parser.pos)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        """As `FormatProgram.print`."""
        self.program.print(printer, op)


def install() -> None:
    """Make lazy the formats of the operations that are declared from now on."""
    lazy: Any = LazyFormat
    FormatProgram.from_str = lazy
