"""The fast lexer returns the same tokens as xDSL's lexer."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from xdsl_spirv.upstream import fast_text

FILECHECK = Path(__file__).parents[1] / "filecheck"
TEXTS = [path.read_text() for path in sorted(FILECHECK.rglob("*.mlir"))]
PIECES = [
    "%",
    "#",
    "#-}",
    "{-#",
    "!",
    "^",
    "->",
    "::",
    "@",
    '"',
    "é",
    "//",
    "\n",
    "0x",
    "1.",
    "...",
]


def tokens(lex: Callable[[Any], Any], text: str) -> list[object]:
    """Returns kind and position of all tokens, and the position at which the lexer fails."""
    lexer, found = MLIRLexer(Input(text, "text")), []
    try:
        while True:
            token = lex(lexer)
            found.append((token.kind, token.span.start, token.span.end))
            if token.kind == MLIRTokenKind.EOF:
                return found
    except ParseError as error:
        return [*found, error.span.start, error.msg]


def test_the_corpus_has_the_tokens_of_xdsl() -> None:
    assert TEXTS
    for text in TEXTS:
        assert tokens(fast_text.lex, text) == tokens(fast_text._lex, text)  # pyright: ignore


@pytest.mark.parametrize("seed", range(200))
def test_damaged_text_has_the_tokens_of_xdsl(seed: int) -> None:
    draw = random.Random(seed)
    text = draw.choice(TEXTS)
    begin = draw.randrange(len(text))
    piece = text[begin : begin + 200]
    for _ in range(8):
        at = draw.randrange(len(piece) + 1)
        piece = piece[:at] + draw.choice(PIECES) + piece[at + draw.randrange(3) :]
    assert tokens(fast_text.lex, piece) == tokens(fast_text._lex, piece)  # pyright: ignore
