"""
The common tokens are lexed by one regular expression, and pieces of a line printed without a look
at the printer's state.

xDSL looks for the end of white space, then at one character after the other, and builds a table of
punctuation for every token; it counts the line ends of every piece that it prints. The two methods
are a fifth of the time in which a module is parsed and printed. The pull requests are the methods.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from xdsl.utils.base_printer import BasePrinter
from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

TOKEN = re.compile(
    r"(?:\s+|//[^\n]*)*+"
    r"(?:([a-zA-Z_][a-zA-Z0-9_$.]*+)"
    r"|([%!^]|#(?!-\}))(?:[0-9]++|[a-zA-Z$._-][a-zA-Z0-9$._-]*+)|([:,()\[\]<>=+*?|}]))",
    re.ASCII,
)
"""White space and comments, then a bare identifier, one with a sign before, or punctuation."""

BARE, PREFIXED, PUNCTUATION = 1, 2, 3

KINDS = {
    "%": MLIRTokenKind.PERCENT_IDENT,
    "!": MLIRTokenKind.EXCLAMATION_IDENT,
    "#": MLIRTokenKind.HASH_IDENT,
    "^": MLIRTokenKind.CARET_IDENT,
    ":": MLIRTokenKind.COLON,
    ",": MLIRTokenKind.COMMA,
    "(": MLIRTokenKind.L_PAREN,
    ")": MLIRTokenKind.R_PAREN,
    "}": MLIRTokenKind.R_BRACE,
    "[": MLIRTokenKind.L_SQUARE,
    "]": MLIRTokenKind.R_SQUARE,
    "<": MLIRTokenKind.LESS,
    ">": MLIRTokenKind.GREATER,
    "=": MLIRTokenKind.EQUAL,
    "+": MLIRTokenKind.PLUS,
    "*": MLIRTokenKind.STAR,
    "?": MLIRTokenKind.QUESTION,
    "|": MLIRTokenKind.VERTICAL_BAR,
}

_lex, _print_string = MLIRLexer.lex, BasePrinter.print_string


def lex(self: Any) -> Token[MLIRTokenKind]:
    """Returns the next token; leaves all but the common ones to xDSL's own method."""
    # A lexer of formats has other identifiers.
    match = TOKEN.match(self.input.content, self.pos) if type(self) is MLIRLexer else None
    if match is None:
        return _lex(self)
    group = match.lastindex or 0
    kind = MLIRTokenKind.BARE_IDENT if group == BARE else KINDS[match[group]]
    self.pos = end = match.end()
    return Token(kind, Span(match.start(group), end, self.input))


def print_string(self: Any, text: str, *, indent: int | None = None) -> None:
    """Prints text, at once if it is a piece of a line."""
    if "\n" in text or getattr(self, "newline", "\n") != "\n":
        _print_string(self, text, indent=indent)
        return
    self._current_column += len(text)
    (self.stream or sys.stdout).write(text)


def install() -> None:
    """Make every lexer and printer of this process use the two methods."""
    MLIRLexer.lex = lex  # pyright: ignore[reportAttributeAccessIssue]
    BasePrinter.print_string = print_string  # pyright: ignore[reportAttributeAccessIssue]
