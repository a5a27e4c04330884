"""
Builds an operation from an earlier line that differs only in the names of values.

xDSL takes 200 microseconds for an operation with a declarative format: it lexes every token, infers
the types and checks the constraints. Lines of a module repeat, and the result depends only on the
line's text and operands. The parser therefore stores the types, properties and attributes of each
line, and the position of each operand, by the text of the line without names. A pull request to
xDSL would store this table in the parser's state, in `FormatProgram.parse`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.lexer import Span

REST_OF_LINE = re.compile(r'(?:[^\n"]|"[^"\n%\\]*")*(?=\n\s*(?:%|\}|\^|[a-z_]+\.|//))')
"""Pattern of the rest of a line, if the operation ends in that line. Excludes strings with `%`."""

VALUE = re.compile(r"%([\w$.-]+)(?:#(\d+))?")

Key: TypeAlias = tuple[type[Operation], str]


@dataclass(frozen=True)
class Line:
    """The types, properties and attributes of a parsed line, without the values."""

    operands: tuple[tuple[int, Attribute], ...]
    """For each operand, its index among the values in the text, and its type."""

    results: tuple[Attribute, ...]
    properties: dict[str, Attribute]
    attributes: dict[str, Attribute]

    @staticmethod
    def record(op: Operation, values: list[SSAValue | None]) -> Line | None:
        """
        Records a line that was parsed as `op`.

        Returns None if the values in the line's text are not exactly the operands.
        """
        if op.regions or op.successors or len({*values}) != len(op.operands) or None in values:
            return None
        if {*values} != {*op.operands}:
            return None
        return Line(
            tuple((values.index(value), value.type) for value in op.operands),
            tuple(result.type for result in op.results),
            dict(op.properties),
            dict(op.attributes),
        )


def parse_repeated(
    parser: Parser,
    op_type: type[IRDLOperation],
    parse: Callable[[Parser, type[IRDLOperation]], IRDLOperation],
) -> IRDLOperation:
    """
    Builds the operation from an equal earlier line, if there is one. Otherwise parses the line.
    """
    text = REST_OF_LINE.match(parser.lexer.input.content, parser.pos)
    if text is None:
        return parse(parser, op_type)
    names = list(VALUE.finditer(text[0]))
    key = (op_type, VALUE.sub("%", text[0]))
    lines: dict[Key, Line] = vars(parser).setdefault("_xdsl_spirv_lines", {})
    if (line := lines.get(key)) is not None:
        operands = [_resolve(parser, names[at], text.start(), type) for at, type in line.operands]
        parser._resume_from(text.end())  # pyright: ignore[reportPrivateUsage]
        return op_type.create(
            operands=operands,
            result_types=line.results,
            properties=dict(line.properties),
            attributes=dict(line.attributes),
        )
    op = parse(parser, op_type)
    if parser.pos >= text.end() and not text.string[text.end() : parser.pos].strip():
        if (line := Line.record(op, [_find_value(parser, name) for name in names])) is not None:
            lines[key] = line
    return op


def _resolve(parser: Parser, name: re.Match[str], start: int, type: Attribute) -> SSAValue:
    """
    Returns the value of a name with this type. For a name that is defined later, returns a forward
    reference.
    """
    value = _find_value(parser, name)
    if value is not None and value.type is type:
        return value
    span = Span(start + name.start(), start + name.end(1), parser.lexer.input)
    return parser.resolve_operand(UnresolvedOperand(span, int(name[2] or 0)), type)


def _find_value(parser: Parser, name: re.Match[str]) -> SSAValue | None:
    index = int(name[2] or 0)
    values: Any = parser.ssa_values.get(name[1])
    if values is None:
        return parser.forward_ssa_references.get(name[1], {}).get(index)
    return values[index] if index < len(values) else None
