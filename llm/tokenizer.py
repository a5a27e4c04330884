"""
Text to tokens and back, as the model's file says.

A text is cut at its special tokens; the text between them becomes tokens by merging: pairs of bytes
in order of their rank within words (`byte_pairs.py`), or of characters by score over the whole text
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
"""Noncharacters of Unicode, one of which is in none of the texts."""


class Words(Protocol):
    """Encodes text that contains no special tokens."""

    adds_start: bool

    def encode(self, text: str, after_token: bool) -> list[int]:
        """The tokens of a text; `after_token`: it begins the prompt, or follows such a token."""
        ...

    def decode(self, token: str) -> bytes:
        """The bytes of a normal token's text."""
        ...


class Tokenizer:
    """Turns text into tokens, and tokens into text."""

    def __init__(self, vocabulary: Vocabulary, place: str = "the model"):
        """Raises `FrontendError` for a kind of tokenizer that is not known."""
        self.vocabulary = vocabulary
        self._words = _words(vocabulary, place)
        adds_start = vocabulary.adds_start
        if adds_start is None:
            adds_start = self._words.adds_start
        if adds_start and vocabulary.start is None:
            raise FrontendError(
                "texts begin with a start token, but the file names none",
                f"{place}, tokenizer.ggml.bos_token_id",
                "download or convert it again",
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
        The tokens of a text, after the start token where the model wants one.

        Control tokens are found only where `control` says so. `guard` is the character that
        `guarded` inserted into spelled control tokens; it is taken out.
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
        """The text with `guard` inserted after each character of every spelled control token."""
        return self._control.sub(lambda match: "".join(c + guard for c in match[0]), text)

    def bytes_of(self, token: int) -> bytes:
        """Returns the bytes that a token adds to a text: none for a control token."""
        match self.vocabulary.kinds[token]:
            case Kind.CONTROL | Kind.UNKNOWN:
                return b""
            case Kind.USER_DEFINED:
                return self.vocabulary.tokens[token].encode()
            case _:
                return self._words.decode(self.vocabulary.tokens[token])

    def decode(self, tokens: Iterable[int]) -> str:
        """The text that begins with these tokens; bytes that are not UTF-8 become U+FFFD."""
        stream = self.stream(begins=True)
        return "".join(map(stream.push, tokens)) + stream.finish()

    def stream(self, *, begins: bool) -> TextStream:
        """Decodes tokens one after the other; `begins`: they are a text's first ones."""
        return TextStream(self, begins)


class TextStream:
    """Tokens as they come to text: bytes wait until they are a whole character."""

    def __init__(self, tokenizer: Tokenizer, begins: bool):
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._added = b" " if begins and tokenizer.vocabulary.adds_space else b""
        """A leading space that the first token adds and that the text does not have."""

    def push(self, token: int) -> str:
        """The characters that a token completes."""
        data = self._tokenizer.bytes_of(token)
        if data:
            data, self._added = data.removeprefix(self._added), b""
        return self._decoder.decode(data)

    def finish(self) -> str:
        """U+FFFD if bytes are left that no token completed."""
        return self._decoder.decode(b"", final=True)


def guard_for(texts: Iterable[str]) -> str:
    """A character that is in none of the texts; raises `FrontendError` if there is none."""
    used = set[str]().union(*texts)
    for guard in GUARDS:
        if guard not in used:
            return guard
    raise FrontendError(
        "the prompt has all of Unicode's noncharacters U+FDD0 to U+FDEF", "", "leave one out"
    )


def _refuse_surrogates(text: str) -> None:
    """Refuses text with bytes that are not UTF-8, which Python keeps as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FrontendError(
            "the text is not valid Unicode", f"character {error.start + 1}", "give it as UTF-8"
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
        "use a model with one of: gpt2, llama",
    )


def _pattern(tokens: Iterable[str]) -> re.Pattern[str]:
    """Finds the longest of some tokens; nothing where there are none."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _parts(text: str, tokens: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
    """The text cut at tokens: each part, and whether it is one."""
    end = 0
    for match in tokens.finditer(text):
        if match.start() > end:
            yield text[end : match.start()], False
        yield match[0], True
        end = match.end()
    if end < len(text):
        yield text[end:], False
