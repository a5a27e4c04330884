"""
Decodes a SPIR-V file into words and finds the start of each instruction.

Decoding checks only the header and the word counts. It takes a few nanoseconds a word and needs 4
bytes for each word and each instruction. Encoding a decoded module gives the same bytes.
`operands.py` interprets the words of one instruction.

    module = decode(Path("kernel.spv").read_bytes())
    for instruction in module:
        print(instruction.name, instruction.operands)
    assert module.encode() == Path("kernel.spv").read_bytes()
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xdsl_spirv.grammar import Instruction as GrammarInstruction
from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError

if TYPE_CHECKING:
    from xdsl_spirv.serialization.raw.operands import RawOperand, Symbols

Words: TypeAlias = NDArray[np.uint32]
ByteOrder: TypeAlias = Literal["little", "big"]

HEADER_WORDS = 5
"""
Length of the header in words: magic number, version, generator, id bound, schema (SPIR-V 2.3).
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that a decoder enforces. The defaults are the universal limits of SPIR-V 2.17."""

    id_bound: int = 0x3FFFFF
    """Maximum id bound. It also limits the size of a table indexed by id (SPIR-V 2.17)."""

    string_bytes: int = 4 * 65535
    """
    Maximum length of a literal string in bytes: 65,535 characters of 4 bytes in UTF-8 (SPIR-V
    2.17).
    """

    group_decorations: int = 100_000
    """
    Maximum total number of decorations that decoration groups apply. SPIR-V has no such limit.

    If a group applies decorations to other groups, they count again for each target of those
    groups.
    """

    branch_values: int = 20_000
    """
    Maximum number of values that branches pass to OpPhi, in addition to the module's number of
    words.

    The limit bounds memory, because the dialect repeats the values for each case of a switch.
    SPIR-V has no such limit.
    """


UNIVERSAL_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Header:
    """A module's header without the magic number."""

    version: tuple[int, int]
    generator: int
    """The tool's registered number in the upper 16 bits, its version in the lower 16 bits."""
    bound: int
    """The id bound: every id is less than this number."""
    schema: int = 0

    def words(self) -> list[int]:
        major, minor = self.version
        magic = grammar().magic
        return [magic, major << 16 | minor << 8, self.generator, self.bound, self.schema]


@dataclass(slots=True)
class RawInstruction:
    """
    An instruction: its index in the module, and its words. The first word contains length and
    opcode.
    """

    module: RawModule
    index: int
    words: list[int]

    @property
    def offset(self) -> int:
        """The word offset of the instruction from the start of the module."""
        return int(self.module.starts[self.index])

    @property
    def opcode(self) -> int:
        return self.words[0] & 0xFFFF

    @property
    def grammar(self) -> GrammarInstruction | None:
        """The grammar's entry for the opcode. None if the opcode is unknown."""
        return grammar().by_opcode(self.opcode)

    @property
    def name(self) -> str | None:
        """The instruction's name, for example `OpIAdd`. None if the opcode is unknown."""
        entry = self.grammar
        return None if entry is None else entry.name

    @property
    def operands(self) -> list[RawOperand]:
        """
        All operands in order. They include the result type, the result, and the parameters of
        enumerants.

        Raises `SPIRVUnknownError` if the grammar lacks the opcode or an enumerant,
        `SPIRVDecodeError` for other faults.
        """
        return self.module.symbols.operands(self)

    def error(self, cause: str, word: int = 0) -> SPIRVDecodeError:
        """Creates a decode error at the word with index `word` of this instruction."""
        return SPIRVDecodeError(cause, self.offset + word, self.index, self.opcode, self.name)


class RawModule:
    """A decoded module. It is a sequence that creates each `RawInstruction` on access."""

    def __init__(
        self,
        words: Words,
        starts: Words,
        byte_order: ByteOrder = "little",
        limits: Limits = UNIVERSAL_LIMITS,
    ):
        self.words = words
        """All words, including the header. They are in the machine's byte order."""
        self.starts = starts
        """The word offset of each instruction."""
        self.byte_order: ByteOrder = byte_order
        """The byte order of the file."""
        self.limits = limits
        self._view = words.data

    @classmethod
    def build(cls, header: Header, instructions: Iterable[Sequence[int]]) -> RawModule:
        """Builds a module from a header and the words of each instruction."""
        words = array("I", header.words())
        for instruction in instructions:
            words.extend(instruction)
        return cls.of_words(np.asarray(words))

    @classmethod
    def of_words(cls, words: Words, byte_order: ByteOrder = "little") -> RawModule:
        """
        Builds a module from all words, including the header. Raises `SPIRVDecodeError` if the words
        are not a sequence of whole instructions.
        """
        return cls(words, _starts(words), byte_order)

    @cached_property
    def header(self) -> Header:
        _, version, generator, bound, schema = self._view[:HEADER_WORDS].tolist()
        return Header((version >> 16 & 0xFF, version >> 8 & 0xFF), generator, bound, schema)

    @cached_property
    def opcodes(self) -> NDArray[np.uint16]:
        """The opcodes of all instructions, in order."""
        return self.words[self.starts].astype(np.uint16)

    @cached_property
    def symbols(self) -> Symbols:
        """The types and instruction sets that are needed to read other instructions."""
        from xdsl_spirv.serialization.raw.operands import Symbols

        return Symbols.of(self)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> RawInstruction:
        count = len(self.starts)
        if not -count <= index < count:
            raise IndexError(index)
        index %= count
        start = int(self.starts[index])
        end = int(self.starts[index + 1]) if index + 1 < count else len(self.words)
        return RawInstruction(self, index, self._view[start:end].tolist())

    def __iter__(self) -> Iterator[RawInstruction]:
        for index, words in enumerate(self.rows()):
            yield RawInstruction(self, index, words)

    def rows(self) -> Iterator[list[int]]:
        """Yields the words of each instruction."""
        view = self._view
        for start in self.starts.data:
            yield view[start : start + (view[start] >> 16)].tolist()

    def __repr__(self) -> str:
        major, minor = self.header.version
        return f"<SPIR-V {major}.{minor}, {len(self)} instructions, {len(self.words)} words>"

    def encode(self) -> bytes:
        """Returns the module's bytes in the file's byte order."""
        return self.words.astype("<u4" if self.byte_order == "little" else ">u4").tobytes()


def decode(
    data: bytes | bytearray | memoryview[Any], limits: Limits = UNIVERSAL_LIMITS
) -> RawModule:
    """
    Decodes a module of either byte order (SPIR-V 2.3). `RawModule.encode` is the inverse.

    Raises `SPIRVDecodeError` if the header is invalid, or a word count is 0 or exceeds the words
    that remain. Does not check opcodes and operands.
    """
    byte_order = _byte_order(data)
    if len(data) % 4:
        raise SPIRVDecodeError(
            f"the module has {len(data)} bytes, which is not a multiple of 4", len(data) // 4
        )
    stored = np.frombuffer(data, dtype="<u4" if byte_order == "little" else ">u4")
    words = stored.astype(np.uint32)
    if len(words) < HEADER_WORDS:
        raise SPIRVDecodeError(
            f"the module has {len(words)} words, fewer than its header of {HEADER_WORDS}",
            len(words),
        )
    if int(words[1]) & 0xFF0000FF:
        raise SPIRVDecodeError(
            f"the version must have the form 0x00MMmm00, not 0x{int(words[1]):08x}", 1
        )
    if int(words[3]) > limits.id_bound:
        raise SPIRVDecodeError(
            f"the id bound {words[3]} is above the limit of {limits.id_bound}", 3
        )
    return RawModule(words, _starts(words), byte_order, limits)


def _byte_order(data: bytes | bytearray | memoryview[Any]) -> ByteOrder:
    first = bytes(data[:4])
    if len(first) < 4:
        raise SPIRVDecodeError(
            f"the module has {len(first)} bytes, fewer than the 4 of the magic number", 0
        )
    magic = grammar().magic
    if struct.unpack("<I", first)[0] == magic:
        return "little"
    if struct.unpack(">I", first)[0] == magic:
        return "big"
    raise SPIRVDecodeError(
        f"the module must begin with SPIR-V's magic number 0x{magic:08x}, not 0x{first.hex()}", 0
    )


def _starts(words: Words) -> Words:
    counts = (words >> 16).astype(np.uint16).data
    starts = array("I")
    append = starts.append
    at, end = HEADER_WORDS, len(words)
    while at < end:
        append(at)
        count = counts[at]
        if not count:
            raise SPIRVDecodeError(
                "an instruction has a word count of 0", at, len(starts) - 1, int(words[at]) & 0xFFFF
            )
        at += count
    if at > end:
        start = starts[-1]
        raise SPIRVDecodeError(
            f"an instruction of {at - start} words ends {at - end} words after the module",
            start,
            len(starts) - 1,
            int(words[start]) & 0xFFFF,
        )
    return np.asarray(starts, dtype=np.uint32)
