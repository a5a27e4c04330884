"""Numbers as the words of literals (SPIR-V 2.2.1)."""

from __future__ import annotations


def integer_words(value: int, width: int, signed: bool = False) -> list[int]:
    """
    An integer literal of `width` bits: low word first, a narrow one extended to a word.

    The extension is by sign if the type is signed and by zeros if not (SPIR-V 2.2.1).

    >>> integer_words(-1, 8), integer_words(-1, 8, signed=True), integer_words(1 << 32, 64)
    ([255], [4294967295], [0, 1])
    """
    value &= (1 << width) - 1
    if signed and value >> (width - 1):
        value -= 1 << width
    count = max(1, (width + 31) // 32)
    return [value >> 32 * i & 0xFFFFFFFF for i in range(count)]
