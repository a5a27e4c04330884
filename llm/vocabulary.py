"""
Represents the vocabulary of a model file: its tokens and their kinds.

The user's text must not spell control tokens (such as the end of a turn), so they are recognised
only in the text of the chat template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from xdsl_spirv.frontends.errors import FrontendError

PREFIX = "tokenizer.ggml."


class Kind(IntEnum):
    """Kinds of tokens, with GGUF's codes."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


ENDS_OF_TURNS = frozenset(
    (
        *("</s>", "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>"),
        *("<|end|>", "<end_of_turn>", "<EOT>", "<｜end▁of▁sentence｜>"),
    )
)
"""
Control tokens that always end an answer.

Files often name only the token that ends a document, not the token that ends a turn.
"""


@dataclass(frozen=True)
class Vocabulary:
    """
    The tokens of a model by id.

    `model` is GGUF's name of the kind of tokenizer. `splitting` is the name of the pre-tokenizer
    ("" without one). `merges` are pairs separated by a space, the best first. `scores` is empty if
    the file has no scores.
    """

    model: str
    splitting: str
    tokens: Sequence[str]
    kinds: Sequence[int]
    scores: Sequence[float]
    merges: Sequence[str]
    start: int | None
    stops: frozenset[int]
    unknown: int | None
    adds_start: bool | None
    """True if a text begins with the start token; None if the file does not say."""
    adds_space: bool
    """True if the tokenizer inserts a space before a text."""

    def of_kinds(self, *kinds: Kind) -> dict[str, int]:
        """Maps the text of each token of the given kinds to its id."""
        return {
            token: number
            for number, (token, kind) in enumerate(zip(self.tokens, self.kinds, strict=True))
            if kind in kinds
        }


def vocabulary_of(metadata: Mapping[str, Any], place: str) -> Vocabulary:
    """
    Reads the vocabulary in a GGUF file's metadata.

    Raises `FrontendError` if the vocabulary is missing or inconsistent.
    """
    values = {
        key.removeprefix(PREFIX): value for key, value in metadata.items() if key.startswith(PREFIX)
    }
    tokens: list[str] = values.get("tokens", [])
    if not tokens or "model" not in values:
        raise FrontendError(
            "the file has no vocabulary",
            place,
            "give a model that was converted with its vocabulary",
        )
    count = len(tokens)
    kinds: list[int] = values.get("token_type", [Kind.NORMAL] * count)
    scores: list[float] = values.get("scores", [])
    for name, column in (("token_type", kinds), ("scores", scores)):
        if len(column) != count and name in values:
            raise FrontendError(
                f"there are {count} tokens, but {len(column)} values of {PREFIX}{name}",
                place,
                "download or convert the file again",
            )
    if len(set(tokens)) != count:
        twice = next(token for token in tokens if tokens.count(token) > 1)
        raise FrontendError(
            f"two tokens have the text {twice!r}", place, "download or convert the file again"
        )
    known = {name: _token(values, name, count, place) for name in _NUMBERS}
    ends = {known[name] for name in ("eos", "eot", "eom")} - {None}
    ends |= {
        number
        for number, token in enumerate(tokens)
        if token in ENDS_OF_TURNS and kinds[number] == Kind.CONTROL
    }
    return Vocabulary(
        model=values["model"],
        splitting=values.get("pre", ""),
        tokens=tokens,
        kinds=kinds,
        scores=scores,
        merges=values.get("merges", []),
        start=known["bos"],
        stops=frozenset(number for number in ends if number is not None),
        unknown=known["unknown"],
        adds_start=values.get("add_bos_token"),
        adds_space=values.get("add_space_prefix", values["model"] == "llama"),
    )


_NUMBERS = ("bos", "eos", "eot", "eom", "unknown")


def _token(values: Mapping[str, Any], name: str, count: int, place: str) -> int | None:
    number: int | None = values.get(f"{name}_token_id")
    if number is not None and not 0 <= number < count:
        raise FrontendError(
            f"{PREFIX}{name}_token_id is {number}, but there are only {count} tokens",
            place,
            "download or convert the file again",
        )
    return number
