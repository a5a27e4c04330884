"""
Converts text to tokens and back with the tokenizer of a model file.

A text is split at special tokens. The text between them becomes tokens by merging pairs of bytes
within words by rank (`byte_pairs.py`), or pairs of characters in the whole text by score
(`sentence_pieces.py`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Protocol

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.llm.vocabulary import Kind, Vocabulary

GUARDS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
"""Unicode noncharacters. `Tokenizer.guarded` inserts one into spellings of control tokens."""


class Words(Protocol):
    """Interface of a tokenizer for text without special tokens."""

    adds_start: bool

    def encode(self, text: str, after_token: bool) -> list[int]:
        """
        Returns the tokens of a text.

        `after_token` is True at the start of the prompt and after a special token.
        """
        ...

    def decode(self, token: str) -> bytes:
        """Returns the bytes of a normal token's text."""
        ...


class Tokenizer:
    """A tokenizer: converts text to tokens, and tokens to text."""

    def __init__(self, vocabulary: Vocabulary, place: str = "the model"):
        """Raises `FrontendError` for an unsupported kind of tokenizer."""
        self.vocabulary = vocabulary
        self._words = _words(vocabulary, place)
        adds_start = vocabulary.adds_start
        if adds_start is None:
            adds_start = self._words.adds_start
        if adds_start and vocabulary.start is None:
            raise FrontendError(
                "texts begin with a start token, but the file does not name the token",
                f"{place}, tokenizer.ggml.bos_token_id",
                "download or convert the file again",
            )
        self.start = [vocabulary.start] if adds_start and vocabulary.start is not None else []
        control = vocabulary.of_kinds(Kind.CONTROL, Kind.UNKNOWN)
        self._literal = vocabulary.of_kinds(Kind.USER_DEFINED)
        self._all = self._literal | control
        self._in_text = _pattern(self._literal)
        self._in_template = _pattern(self._all)
        self._control = _pattern(control)

    def encode(self, text: str, *, control: bool = False, guard: str = "") -> list[int]:
        """
        Returns the tokens of a text, after the start token if the model needs it.

        Control tokens are recognised only if `control` is set. Removes the character `guard`, which
        `guarded` inserted.
        """
        _refuse_surrogates(text)
        tokens: list[int] = []
        after_token = True
        for part, is_token in _parts(text, self._in_template if control else self._in_text):
            if is_token:
                tokens.append(self._all[part])
            else:
                tokens += self._words.encode(part.replace(guard, ""), after_token)
            after_token = is_token
        return tokens if tokens[:1] == self.start else [*self.start, *tokens]

    def guarded(self, text: str, guard: str) -> str:
        """Returns a text with `guard` after each character of every spelling of a control token."""
        return self._control.sub(lambda match: "".join(c + guard for c in match[0]), text)

    def bytes_of(self, token: int) -> bytes:
        """Returns the bytes that a token adds to a text; empty for a control token."""
        match self.vocabulary.kinds[token]:
            case Kind.CONTROL | Kind.UNKNOWN:
                return b""
            case Kind.USER_DEFINED:
                return self.vocabulary.tokens[token].encode()
            case _:
                return self._words.decode(self.vocabulary.tokens[token])

    def decode(self, tokens: Iterable[int]) -> str:
        """Converts all tokens of a text to the text. Invalid UTF-8 becomes U+FFFD."""
        stream = self.stream(begins=True)
        return "".join(map(stream.push, tokens)) + stream.finish()

    def stream(self, *, begins: bool) -> TextStream:
        """Returns a decoder of a stream of tokens; `begins` is True at the start of a text."""
        return TextStream(self, begins)


class TextStream:
    """A decoder for a stream of tokens, which holds back bytes until they form a character."""

    def __init__(self, tokenizer: Tokenizer, begins: bool):
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._added = b" " if begins and tokenizer.vocabulary.adds_space else b""
        """Space that the tokenizer inserted before the text. Empty after its removal."""

    def push(self, token: int) -> str:
        """Returns the characters that a token completes."""
        data = self._tokenizer.bytes_of(token)
        if data:
            data, self._added = data.removeprefix(self._added), b""
        return self._decoder.decode(data)

    def finish(self) -> str:
        """Returns U+FFFD if an incomplete character is left, else an empty text."""
        return self._decoder.decode(b"", final=True)


def guard_for(texts: Iterable[str]) -> str:
    """Returns a guard character that is not in the texts. Raises `FrontendError` without one."""
    used = set[str]().union(*texts)
    for guard in GUARDS:
        if guard not in used:
            return guard
    raise FrontendError(
        "the prompt contains all of Unicode's noncharacters U+FDD0 to U+FDEF", "", "leave one out"
    )


def _refuse_surrogates(text: str) -> None:
    """Raises `FrontendError` for surrogates, by which Python represents invalid UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FrontendError(
            "the text is not valid Unicode",
            f"character {error.start + 1}",
            "give the text as UTF-8",
        ) from error


def _words(vocabulary: Vocabulary, place: str) -> Words:
    if vocabulary.model == "gpt2":
        from xdsl_spirv.llm.byte_pairs import BytePairs

        return BytePairs(vocabulary, place)
    if vocabulary.model == "llama":
        from xdsl_spirv.llm.sentence_pieces import SentencePieces

        return SentencePieces(vocabulary, place)
    raise FrontendError(
        f"tokenizers of the kind {vocabulary.model!r} are not supported",
        f"{place}, tokenizer.ggml.model",
        "use a model whose tokenizer is gpt2 or llama",
    )


def _pattern(tokens: Iterable[str]) -> re.Pattern[str]:
    """Returns a pattern that matches the longest of `tokens`, or nothing if there are no tokens."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _parts(text: str, tokens: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
    """Splits a text at tokens. Yields each part, and True if the part is a token."""
    end = 0
    for match in tokens.finditer(text):
        if match.start() > end:
            yield text[end : match.start()], False
        yield match[0], True
        end = match.end()
    if end < len(text):
        yield text[end:], False
