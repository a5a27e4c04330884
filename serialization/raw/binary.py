"""
A module as in the file: words, and the start of each instruction.

Decoding only finds the instructions' boundaries. So it takes a few nanoseconds a word and 4 bytes
for each word and instruction, and accepts any contents: encoding gives the same bytes back.
`operands.py` interprets the words of one instruction at a time.

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
"""Magic number, version, generator, id bound, schema (SPIR-V 2.3)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a decoder; the defaults are the universal limits of SPIR-V 2.17."""

    id_bound: int = 0x3FFFFF
    """SPIR-V 2.17, result id bound: no table indexed by id is longer than this."""

    string_bytes: int = 4 * 65535
    """SPIR-V 2.17, characters in a literal string (65,535 of at most 4 bytes in UTF-8)."""

    group_decorations: int = 100_000
    """
    Our own limit, as SPIR-V has none: the decorations of all groups of a module together. A group
    that is applied to groups counts once for each path through them.
    """

    branch_values: int = 20_000
    """
    Our own limit: the values that branches pass to OpPhi, beyond one for each word of the module.
    In the dialect, each case of a switch repeats the values that it passes.
    """


UNIVERSAL_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Header:
    """The first words of a module after the magic number."""

    version: tuple[int, int]
    generator: int
    """The registered tool in the upper half, its version in the lower."""
    bound: int
    """The id bound: every id is below it."""
    schema: int = 0

    def words(self) -> list[int]:
        major, minor = self.version
        magic = grammar().magic
        return [magic, major << 16 | minor << 8, self.generator, self.bound, self.schema]


@dataclass(slots=True)
class RawInstruction:
    """One instruction: its place and its words, of which the first holds length and opcode."""

    module: RawModule
    index: int
    words: list[int]

    @property
    def offset(self) -> int:
        """The place of its first word in the module."""
        return int(self.module.starts[self.index])

    @property
    def opcode(self) -> int:
        return self.words[0] & 0xFFFF

    @property
    def grammar(self) -> GrammarInstruction | None:
        """The grammar's record of the opcode, None if it is unknown."""
        return grammar().by_opcode(self.opcode)

    @property
    def name(self) -> str | None:
        """The instruction's name, `OpIAdd` say, None if the opcode is unknown."""
        entry = self.grammar
        return None if entry is None else entry.name

    @property
    def operands(self) -> list[RawOperand]:
        """
        All operands in order: also result type and result, and enumerants' parameters after their
        enumerant.

        Raises `SPIRVDecodeError`; `SPIRVUnknownError` where the grammar lacks opcode or enumerant.
        """
        return self.module.symbols.operands(self)

    def error(self, cause: str, word: int = 0) -> SPIRVDecodeError:
        """A decode error at a word of this instruction."""
        return SPIRVDecodeError(cause, self.offset + word, self.index, self.opcode, self.name)


class RawModule:
    """A decoded module; a sequence of `RawInstruction`, made when asked for."""

    def __init__(
        self,
        words: Words,
        starts: Words,
        byte_order: ByteOrder = "little",
        limits: Limits = UNIVERSAL_LIMITS,
    ):
        self.words = words
        """Every word, the header's too, in the machine's own byte order."""
        self.starts = starts
        """The word offset of each instruction."""
        self.byte_order: ByteOrder = byte_order
        """The order in the file."""
        self.limits = limits
        self._view = words.data

    @classmethod
    def build(cls, header: Header, instructions: Iterable[Sequence[int]]) -> RawModule:
        """
        Makes a module of instructions given as words; the first word of each has length and opcode.
        """
        words = array("I", header.words())
        for instruction in instructions:
            words.extend(instruction)
        return cls.of_words(np.asarray(words))

    @classmethod
    def of_words(cls, words: Words, byte_order: ByteOrder = "little") -> RawModule:
        """
        Makes a module of all its words. Raises `SPIRVDecodeError` if they are not instructions.
        """
        return cls(words, _starts(words), byte_order)

    @cached_property
    def header(self) -> Header:
        _, version, generator, bound, schema = self._view[:HEADER_WORDS].tolist()
        return Header((version >> 16 & 0xFF, version >> 8 & 0xFF), generator, bound, schema)

    @cached_property
    def opcodes(self) -> NDArray[np.uint16]:
        """The opcode of each instruction."""
        return self.words[self.starts].astype(np.uint16)

    @cached_property
    def symbols(self) -> Symbols:
        """The types and instruction sets that other instructions' operands depend on."""
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
        """The words of each instruction."""
        view = self._view
        for start in self.starts.data:
            yield view[start : start + (view[start] >> 16)].tolist()

    def __repr__(self) -> str:
        major, minor = self.header.version
        return f"<SPIR-V {major}.{minor}, {len(self)} instructions, {len(self.words)} words>"

    def encode(self) -> bytes:
        """The bytes of the file, in its byte order."""
        return self.words.astype("<u4" if self.byte_order == "little" else ">u4").tobytes()


def decode(
    data: bytes | bytearray | memoryview[Any], limits: Limits = UNIVERSAL_LIMITS
) -> RawModule:
    """
    Decodes a module, in either byte order (SPIR-V 2.3); `encode` is the inverse.

    Raises `SPIRVDecodeError` if the header is not SPIR-V's, or an instruction has no words or more
    than remain. Does not check opcodes and operands.
    """
    byte_order = _byte_order(data)
    if len(data) % 4:
        raise SPIRVDecodeError(
            f"{len(data)} bytes are not a whole number of 32-bit words", len(data) // 4
        )
    stored = np.frombuffer(data, dtype="<u4" if byte_order == "little" else ">u4")
    words = stored.astype(np.uint32)
    if len(words) < HEADER_WORDS:
        raise SPIRVDecodeError(
            f"{len(words)} words are fewer than the {HEADER_WORDS} of the header", len(words)
        )
    if int(words[1]) & 0xFF0000FF:
        raise SPIRVDecodeError(f"0x{int(words[1]):08x} is not a version: 0x00MMmm00 is expected", 1)
    if int(words[3]) > limits.id_bound:
        raise SPIRVDecodeError(f"the id bound {words[3]} is above the limit {limits.id_bound}", 3)
    return RawModule(words, _starts(words), byte_order, limits)


def _byte_order(data: bytes | bytearray | memoryview[Any]) -> ByteOrder:
    first = bytes(data[:4])
    if len(first) < 4:
        raise SPIRVDecodeError(f"{len(first)} bytes are too short for a module", 0)
    magic = grammar().magic
    if struct.unpack("<I", first)[0] == magic:
        return "little"
    if struct.unpack(">I", first)[0] == magic:
        return "big"
    raise SPIRVDecodeError(f"0x{first.hex()} is not SPIR-V's magic number 0x{magic:08x}", 0)


def _starts(words: Words) -> Words:
    """
    Word offsets at which instructions start. Each length is needed to find the next instruction.
    """
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
            f"an instruction of {at - start} words ends {at - end} words behind the module",
            start,
            len(starts) - 1,
            int(words[start]) & 0xFFFF,
        )
    return np.asarray(starts, dtype=np.uint32)
