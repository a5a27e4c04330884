"""
Builds a SPIR-V module from 32-bit words.

Encodes the header, the order of sections (SPIR-V 2.4), numbers and strings (2.2.1, 2.2.2). Opcodes
are plain numbers in this module, and callers pass operands as words.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from enum import IntEnum

MAX_WORD_COUNT = 0xFFFF
"""
Maximum number of words of an instruction: its field in the first word has 16 bits (SPIR-V 2.3).
"""

MAX_ID_BOUND = 0x3FFFFF
"""Maximum id bound (universal limit of SPIR-V 2.17)."""

GENERATOR = 0
"""The generator word of the header. 0 means a tool that is not in Khronos' registry."""


class Section(IntEnum):
    """The sections of a module, in the order that SPIR-V 2.4 requires."""

    CAPABILITIES = 0
    EXTENSIONS = 1
    IMPORTS = 2
    MEMORY_MODEL = 3
    ENTRY_POINTS = 4
    EXECUTION_MODES = 5
    SOURCES = 6
    NAMES = 7
    PROCESSES = 8
    ANNOTATIONS = 9
    GLOBALS = 10
    DECLARATIONS = 11
    FUNCTIONS = 12
    GRAPH_ENTRY_POINTS = 13
    GRAPHS = 14


def instruction(opcode: int, operands: Sequence[int]) -> list[int]:
    """Encodes an instruction. Raises `OverflowError` above `MAX_WORD_COUNT` words."""
    count = len(operands) + 1
    if count > MAX_WORD_COUNT:
        raise OverflowError(
            f"an instruction of {count} words exceeds SPIR-V's limit of {MAX_WORD_COUNT}"
        )
    return [count << 16 | opcode, *operands]


def string_words(text: str) -> list[int]:
    """
    Encodes a literal string: UTF-8, a zero byte at the end, padded with zeros to whole words.

    >>> [hex(w) for w in string_words("main")]
    ['0x6e69616d', '0x0']
    """
    data = text.encode("utf-8", "surrogateescape") + b"\0"
    data += bytes(-len(data) % 4)
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


class ModuleWords:
    """Collects a module's words by section."""

    def __init__(self) -> None:
        self.sections: list[list[int]] = [[] for _ in Section]

    def add(self, section: Section, opcode: int, operands: Sequence[int]) -> None:
        """Appends one instruction to a section."""
        self.sections[section] += instruction(opcode, operands)

    def assemble(self, magic: int, version: tuple[int, int], bound: int) -> bytes:
        """
        Returns the whole binary in little-endian byte order.

        Raises `OverflowError` if `bound` is above `MAX_ID_BOUND`.
        """
        if bound > MAX_ID_BOUND:
            raise OverflowError(f"{bound} ids exceed SPIR-V's limit of {MAX_ID_BOUND}")
        major, minor = version
        words = array("I", [magic, major << 16 | minor << 8, GENERATOR, bound, 0])
        for section in self.sections:
            words.extend(section)
        if sys.byteorder == "big":
            words.byteswap()
        return words.tobytes()
