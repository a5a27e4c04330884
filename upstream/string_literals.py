r"""
Corrects xDSL's lexer: a string literal is text if its bytes are UTF-8.

xDSL 0.74 prints "é" as "\C3\A9", and reads that as bytes where a string is required. A module with
such a name can therefore not be read back. It also takes exponential time for an unterminated
literal. `install` replaces the method; bytes that are not UTF-8 remain bytes. A pull request to
xDSL would contain this method and its pattern.
"""

import re
from typing import Any

from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind, StringLiteral

LITERAL = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')
"""xDSL's pattern of a string literal, without backtracking."""


def _lex_string_literal(self: Any, start_pos: int) -> Token[MLIRTokenKind]:
    """Returns a string token, or a bytes token if the bytes are not UTF-8."""
    match = LITERAL.match(self.input.content, start_pos)
    if match is None:
        raise ParseError(
            Span(start_pos, self.pos, self.input),
            "End of file reached before closing string literal.",
        )
    self.pos = match.end()
    literal = StringLiteral(start_pos, self.pos, self.input)
    if "\\" not in match[0]:
        return Token(MLIRTokenKind.STRING_LIT, literal)
    try:
        literal.bytes_contents.decode()
    except UnicodeDecodeError:
        return Token(MLIRTokenKind.BYTES_LIT, literal)
    return Token(MLIRTokenKind.STRING_LIT, literal)


def install() -> None:
    """Makes every lexer of this process read UTF-8 text in string literals."""
    MLIRLexer._lex_string_literal = _lex_string_literal  # pyright: ignore
