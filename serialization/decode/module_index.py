"""
Looks up a module's instructions by index (row) and by id, for the decoder.

One pass over the words finds the definition of every id, the functions and their blocks. Errors
report the instruction that is being decoded (`at`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import BytesAttr, StringAttr

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw.binary import RawModule
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.raw.operands import opcode_of


class Facts(NamedTuple):
    """Name of an instruction, and whether it has a result type and a result."""

    name: str
    has_type: bool
    has_result: bool


@cache
def facts(opcode: int) -> Facts | None:
    entry = grammar().by_opcode(opcode)
    return None if entry is None else Facts(entry.name, entry.has_result_type, entry.has_result)


SHORT = 32
"""Maximum number of words of an instruction that is not cached."""


class Rows:
    """
    A sequence of instructions, each as a list of its words.

    Each access makes a new list, because lists for all instructions would take ten times the memory
    of the binary. Lists of long instructions are cached.
    """

    def __init__(self, raw: RawModule):
        self._view: memoryview[int] = raw.words.data
        self._starts: memoryview[int] = raw.starts.data
        self._long: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, row: int) -> list[int]:
        start = self._starts[row]
        count = self._view[start] >> 16
        if count <= SHORT:
            return self._view[start : start + count].tolist()
        words = self._long.get(row)
        if words is None:
            words = self._long[row] = self._view[start : start + count].tolist()
        return words


class ModuleIndex:
    """The instructions of a module."""

    def __init__(self, raw: RawModule):
        self.raw = raw
        self.bound = raw.header.bound
        self.rows = Rows(raw)
        self.opcodes: memoryview[int] = raw.opcodes.data
        self.at = 0
        """Index of the instruction that is being decoded."""
        self._passed = 0
        self._files: dict[int, StringAttr] = {}
        self.definitions: dict[int, int] = {}
        """Maps a result id to the index of its instruction."""
        self._define()
        begins = ("OpFunction", "OpGraphEntryPointARM", "OpGraphARM")
        functions = np.flatnonzero(np.isin(raw.opcodes, [opcode_of(name) for name in begins]))
        self.first_function = int(functions[0]) if len(functions) else len(self.rows)

    def _define(self) -> None:
        definitions = self.definitions
        for row, (opcode, words) in enumerate(zip(self.opcodes, self.raw.rows(), strict=True)):
            known = facts(opcode)
            if known is None or not known.has_result:
                continue
            place = 1 + known.has_type
            if len(words) <= place:
                self.at = row
                raise self.error("the instruction ends before its result")
            result = words[place]
            if not 0 < result < self.bound:
                self.at = row
                raise self.error(f"the result is {result}: ids are from 1 to {self.bound - 1}")
            if result in definitions:
                self.at = row
                raise self.error(f"%{result} is defined twice")
            definitions[result] = row

    @cached_property
    def _labels(self) -> np.ndarray[Any, Any]:
        return np.flatnonzero(self.raw.opcodes == opcode_of("OpLabel"))

    def in_one_block(self, row: int, below: int) -> bool:
        """True if the instructions `row` and `below` are in one block, in this order."""
        return row < below and not np.diff(np.searchsorted(self._labels, (row, below)))[0]

    def innermost(self, row: int) -> int:
        """Returns the id of the constituent inside nested replicated constants."""
        name = self.name(row)
        while True:
            id = self.word(self.rows[row], 3)
            inner = self.definitions.get(id, row)
            if inner >= row or self.name(inner) != name:
                return id
            row = inner

    def name(self, row: int) -> str | None:
        """Returns the name of an instruction. Returns None if its opcode is unknown."""
        known = facts(self.opcodes[row])
        return None if known is None else known.name

    def parts(self, row: int) -> Sequence[int]:
        """Returns the ids in a constant or an array type that must be defined before it."""
        name, words = self.name(row), self.rows[row]
        match name:
            case "OpSpecConstantOp":
                kinds = ("IdRef", "IdResultType")
                return [int(o.value) for o in self.raw[row].operands if o.kind in kinds]
            case "OpTypeArray":
                element = self.definitions.get(words[2]) if len(words) > 2 else None
                # A pointer type may be declared after an array of such pointers.
                forward = element is not None and self.name(element) == "OpTypePointer"
                return words[3:4] if forward else words[2:4]
            case "OpConstantComposite" | "OpSpecConstantComposite":
                return [*words[1:2], *words[3:]]
            case "OpConstant" | "OpSpecConstant":
                return words[1:2]
            case _:
                return ()

    def functions(self) -> Iterator[range]:
        """Yields the instruction indices of each function, from OpFunction to OpFunctionEnd."""
        begin, end = opcode_of("OpFunction"), opcode_of("OpFunctionEnd")
        start: int | None = None
        for row in range(self.first_function, len(self.rows)):
            opcode = self.opcodes[row]
            self.at = row
            if opcode == begin:
                if start is not None:
                    raise self.error("a function begins inside another function")
                start = row
            elif opcode == end:
                if start is None:
                    raise self.error("OpFunctionEnd has no OpFunction before it")
                yield range(start, row + 1)
                start = None
            elif start is None and (self.name(row) or "").startswith("OpGraph"):
                return  # Graphs follow all functions.
            elif start is None and self.name(row) not in OUTSIDE:
                raise self.error(
                    "the instruction must be inside a function or before all functions"
                )
        if start is not None:
            raise self.error("the module ends inside a function")

    def pass_values(self, count: int) -> None:
        """
        Adds to the number of values that branches pass to OpPhi. Raises `SPIRVDecodeError` if it
        exceeds the limit.
        """
        limit = self.raw.limits.branch_values
        self._passed += count
        if self._passed > limit + len(self.raw.words):
            raise self.error(
                f"branches pass {self._passed} values to OpPhi, above the limit of {limit} plus "
                "the module's number of words"
            )

    def error(self, cause: str) -> SPIRVDecodeError:
        """Creates an error at the instruction that is being decoded."""
        if not self.rows:
            return SPIRVDecodeError(cause, 0)
        return self.raw[min(self.at, len(self.rows) - 1)].error(cause)

    def word(self, words: Sequence[int], place: int) -> int:
        if place >= len(words):
            raise self.error(f"the instruction ends after {len(words)} words")
        return words[place]

    def string(self, words: Sequence[int], place: int) -> str:
        """
        Returns the string that begins at a word of an instruction. It must fill the rest of the
        instruction.
        """
        data = b"".join(w.to_bytes(4, "little") for w in words[place:])
        text, zero, _ = data.partition(b"\0")
        if not zero:
            raise self.error("a string has no zero byte at its end")
        return text.decode("utf-8", "replace")

    def file_name(self, row: int) -> StringAttr:
        """Returns the text of an OpString. All lines of a file share one attribute for it."""
        if row not in self._files:
            self._files[row] = StringAttr(self.string(self.rows[row], 2))
        return self._files[row]

    def literal(self, text: str) -> StringAttr | BytesAttr:
        """
        Creates the attribute for a string in a raw operation. A string that is not UTF-8 becomes
        bytes.
        """
        data = text.encode("utf-8", "surrogateescape")
        try:
            return StringAttr(data.decode())
        except UnicodeDecodeError:
            return BytesAttr(data)

    def text(self, text: str) -> StringAttr:
        """
        Converts a string to an attribute. Raises `SPIRVDecodeError` if the string is not UTF-8.
        """
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self.error("a string is not UTF-8") from None
        return StringAttr(text)


EXTENDED = ("OpExtInst", "OpExtInstWithForwardRefsKHR")
"""Instructions whose operands contain an instruction of an extended set."""

OUTSIDE = ("OpLine", "OpNoLine", "OpNop", *EXTENDED)
"""Instructions that may occur between functions."""
