"""
Implements SentencePiece tokens: characters are merged by the score of the resulting token.

Text is not split into words: the two neighbours with the best score in the whole text are merged
first (the leftmost two if scores are equal). A character that is not a token becomes the tokens of
its bytes.
"""

from __future__ import annotations

import re
from heapq import heappop, heappush

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.llm.vocabulary import Kind, Vocabulary

SPACE = "▁"
"""Character for a space in tokens."""
BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class SentencePieces:
    """A SentencePiece tokenizer."""

    adds_start = True

    def __init__(self, vocabulary: Vocabulary, place: str):
        """Raises `FrontendError` for a vocabulary without scores."""
        if not vocabulary.scores:
            raise FrontendError(
                "the file has no scores of tokens",
                f"{place}, tokenizer.ggml.scores",
                "download or convert the file again",
            )
        self._place = place
        self._adds_space = vocabulary.adds_space
        self._tokens = vocabulary.of_kinds(Kind.NORMAL, Kind.UNUSED)
        self._scores = vocabulary.scores
        self._unknown = vocabulary.unknown
        self._bytes = {
            int(match[1], 16): number
            for token, number in vocabulary.of_kinds(Kind.BYTE).items()
            if (match := BYTE.fullmatch(token))
        }

    def encode(self, text: str, after_token: bool) -> list[int]:
        """Returns the tokens of a text. Raises `FrontendError` for a character without a token."""
        if self._adds_space and after_token:
            text = " " + text
        text = text.replace(" ", SPACE)
        lengths = self._merge_pieces(text)
        tokens: list[int] = []
        for start, length in enumerate(lengths):
            if length:
                tokens += self._tokens_of(text[start : start + length])
        return tokens

    def decode(self, token: str) -> bytes:
        """Returns the bytes of a token's text."""
        match = BYTE.fullmatch(token)
        return bytes([int(match[1], 16)]) if match else token.replace(SPACE, " ").encode()

    def _merge_pieces(self, text: str) -> list[int]:
        """Returns the length of the piece that begins at each character; 0 inside a piece."""
        lengths = [1] * len(text)
        previous = list(range(-1, len(text)))
        pairs: list[tuple[float, int, int]] = []

        def offer(left: int) -> None:
            """Queues a merge of the piece at `left` with the next piece, if that gives a token."""
            right = left + lengths[left]
            if left < 0 or right >= len(text):
                return
            end = right + lengths[right]
            number = self._tokens.get(text[left:end])
            if number is not None:
                heappush(pairs, (-self._scores[number], left, end - left))

        for left in range(len(text)):
            offer(left)
        while pairs:
            _, left, length = heappop(pairs)
            right = left + lengths[left]
            # A piece of the pair was merged after the pair was queued.
            if not lengths[left] or right >= len(text) or lengths[left] + lengths[right] != length:
                continue
            lengths[left], lengths[right] = length, 0
            previous[left + length] = left
            offer(previous[left])
            offer(left)
        return lengths

    def _tokens_of(self, piece: str) -> list[int]:
        """Returns the token of a piece, or the tokens of its bytes."""
        if piece in self._tokens:
            return [self._tokens[piece]]
        data = piece.encode()
        if self._bytes.keys() >= set(data):
            return [self._bytes[byte] for byte in data]
        if self._unknown is not None:
            return [self._unknown]
        raise FrontendError(
            f"the model has no token for {piece!r}", "the prompt", "leave this text out"
        )
