"""
Implements byte-pair encoding as in GPT-2, with the package tokenizers.

The vocabulary represents the bytes of UTF-8 by printable characters.
"""

from __future__ import annotations

from typing import Any

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.llm.packages import needed
from xdsl_spirv.llm.splittings import SPLITTINGS, Splitting
from xdsl_spirv.llm.vocabulary import Kind, Vocabulary


def _characters() -> dict[int, str]:
    """Maps each byte to a visible character: U+00XX of the byte's value, or one from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(0x100)) - set(visible))
    return {
        **{byte: chr(byte) for byte in visible},
        **{byte: chr(0x100 + i) for i, byte in enumerate(others)},
    }


CHARACTERS = _characters()
BYTES = {character: byte for byte, character in CHARACTERS.items()}


class BytePairs:
    """A byte-pair tokenizer."""

    def __init__(self, vocabulary: Vocabulary, place: str):
        """Raises `FrontendError` for an unknown pre-tokenizer or merges that are not tokens."""
        splitting = _splitting(vocabulary.splitting, place)
        self.adds_start = splitting.adds_start
        tokens = vocabulary.of_kinds(Kind.NORMAL, Kind.UNUSED)
        self._lacking = {byte for byte, text in CHARACTERS.items() if text not in tokens}
        self._tokenizer = _tokenizer(vocabulary, tokens, splitting, place)

    def encode(self, text: str, after_token: bool) -> list[int]:
        """Returns the tokens of a text. Raises `FrontendError` for a byte without a token."""
        lacking = self._lacking and self._lacking.intersection(text.encode())
        if lacking:
            raise FrontendError(
                f"the model has no token for the byte {min(lacking):#04x}",
                "the prompt",
                "leave out the character with this byte",
            )
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, token: str) -> bytes:
        """
        Returns the bytes that a token's characters represent.

        A text with a character that does not represent a byte is encoded as UTF-8.
        """
        try:
            return bytes(BYTES[character] for character in token)
        except KeyError:
            return token.encode()


def _splitting(name: str, place: str) -> Splitting:
    if name in SPLITTINGS:
        return SPLITTINGS[name]
    cause = f"the pre-tokenizer {name!r} is unknown"
    if not name:
        cause = "the file does not name its pre-tokenizer"
    raise FrontendError(
        cause,
        f"{place}, tokenizer.ggml.pre",
        f"convert the model with a current llama.cpp, or use one of: {', '.join(SPLITTINGS)}",
    )


def _tokenizer(
    vocabulary: Vocabulary, tokens: dict[str, int], splitting: Splitting, place: str
) -> Any:
    merges = [tuple(merge.split(" ", 1)) for merge in vocabulary.merges]
    for left, *right in merges:
        if not right or not {left, *right, left + right[0]} <= tokens.keys():
            raise FrontendError(
                f"the merge {' '.join([left, *right])!r} contains a text that is not a token",
                f"{place}, tokenizer.ggml.merges",
                "download or convert the file again",
            )
    tokenizers = needed("tokenizers")
    model = tokenizers.models.BPE(tokens, merges, ignore_merges=splitting.whole)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = splitter(splitting)
    return tokenizer


def splitter(splitting: Splitting) -> Any:
    """Returns a pre-tokenizer that splits text into words, and words into bytes."""
    tokenizers = needed("tokenizers")
    words = tokenizers.pre_tokenizers
    cuts = [words.Split(tokenizers.Regex(pattern), "isolated") for pattern in splitting.patterns]
    return words.Sequence([*cuts, words.ByteLevel(add_prefix_space=False, use_regex=False)])
