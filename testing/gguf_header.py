"""Writes the header of a GGUF file with keys and values and without tensors."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

STRING, ARRAY = 8, 9
KINDS = {bool: 7, int: 4, float: 6, str: STRING, list: ARRAY}
"""Type ids of values. Numbers have 32 bits, and integers are unsigned."""
SIGNED = {4: 5}
"""Type ids of the elements of lists. Integers are signed."""
LETTERS = {7: "?", 4: "I", 5: "i", 6: "f"}


def gguf_header(values: Mapping[str, Any]) -> bytes:
    """Returns a GGUF file of version 3 with these values."""
    parts = [struct.pack("<4sIQQ", b"GGUF", 3, 0, len(values))]
    for key, value in values.items():
        kind = KINDS[type(value)]
        parts += [_bytes(key, STRING), struct.pack("<I", kind), _bytes(value, kind)]
    return b"".join(parts)


def _bytes(value: Any, kind: int) -> bytes:
    if kind == STRING:
        data = value.encode()
        return struct.pack("<Q", len(data)) + data
    if kind == ARRAY:
        element = KINDS[type(value[0])] if value else KINDS[int]
        element = SIGNED.get(element, element)
        head = struct.pack("<IQ", element, len(value))
        return head + b"".join(_bytes(v, element) for v in value)
    return struct.pack("<" + LETTERS[kind], value)
