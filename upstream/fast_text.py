"""Lexes common tokens of MLIR text by one regular expression, for speed."""

from __future__ import annotations

import re
from typing import Any

from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

TOKEN = re.compile(
    r"(?:\s+|//[^\n]*)*+"
    r"(?:([a-zA-Z_][a-zA-Z0-9_$.]*+)"
    r"|([%!^]|#(?!-\}))(?:[0-9]++|[a-zA-Z$._-][a-zA-Z0-9$._-]*+)|([:,()\[\]<>=+*?|}]))",
    re.ASCII,
)
"""Matches white space and comments, then an identifier (bare or with a sigil) or punctuation."""

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

_lex = MLIRLexer.lex


def lex(self: Any) -> Token[MLIRTokenKind]:
    """Returns the next token of a text. Calls xDSL's method for uncommon tokens."""
    # Lexers of assembly formats have different identifiers.
    match = TOKEN.match(self.input.content, self.pos) if type(self) is MLIRLexer else None
    if match is None:
        return _lex(self)
    group = match.lastindex or 0
    kind = MLIRTokenKind.BARE_IDENT if group == BARE else KINDS[match[group]]
    self.pos = end = match.end()
    return Token(kind, Span(match.start(group), end, self.input))


def install() -> None:
    """Makes every lexer of this process use `lex`."""
    MLIRLexer.lex = lex  # pyright: ignore[reportAttributeAccessIssue]
