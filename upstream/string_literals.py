"""
A correction of xDSL's lexer: a string literal is UTF-8 text wherever its bytes are.

xDSL 0.74 prints "é" as "\\C3\\A9" and reads that as bytes, where a string is required: a module
with the name of a folder called josé could not be read back. It also takes exponential time for a
literal that does not end. `install` replaces the one method that is wrong; bytes that are not UTF-8
remain bytes. The pull request is this method and its pattern.
"""

import re
from typing import Any

from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind, StringLiteral

LITERAL = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')
"""xDSL's own pattern, without backtracking."""


def _lex_string_literal(self: Any, start_pos: int) -> Token[MLIRTokenKind]:
    """A string, or bytes if they are not UTF-8."""
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
    """Make every parser of this process read text beyond ASCII."""
    MLIRLexer._lex_string_literal = _lex_string_literal  # pyright: ignore
