"""
Prints a module as assembly that assembles to the same words.

The text equals the output of `spirv-dis` for every module that `spirv-dis` accepts. Instructions
that `spirv-dis` refuses are printed as words, `!0x...`, which every assembler copies. Examples are
unknown opcodes, enumerants and extended instructions, and strings and numbers with stray bits. The
header is printed as comments at the top.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.files import write_atomically
from xdsl_spirv.serialization.raw.binary import RawInstruction, RawModule, decode
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError, SPIRVUnknownError
from xdsl_spirv.serialization.raw.literals import FLOAT32, format_number
from xdsl_spirv.serialization.raw.operands import RawOperand, operand_specs
from xdsl_spirv.serialization.text.friendly_names import friendly_names
from xdsl_spirv.serialization.text.instruction_forms import (
    UNREADABLE_KINDS,
    Form,
    Forms,
    Shape,
    enumerants,
    extended_name,
    opcode_name,
    shape,
)

INDENT = 15
"""Column in which the names of instructions begin."""

MAX_TEXT_RATIO = 16
"""
Maximum length of the text relative to the binary. A longer text is printed with numeric ids in
place of names. Only hostile modules reach this limit, by long names with many uses.
"""

MAX_EXPLAINED = 100
"""Maximum number of errors that a tolerant disassembly describes in comments."""

TOGETHER = 4096
"""Number of instructions that are printed as one batch: a compromise between speed and memory."""

FREE_TEXT = 1 << 16
"""Number of characters up to which a text is exempt from `MAX_TEXT_RATIO`."""


def disassemble(
    module: RawModule,
    *,
    raw_ids: bool = False,
    header: bool = True,
    indent: bool = True,
    offsets: bool = False,
    tolerant: bool = False,
) -> str:
    """
    Returns a module's assembly text.

    With `raw_ids`, ids are printed as `%12` instead of names. With `offsets`, a comment gives the
    byte offset of each instruction. Raises `SPIRVDecodeError` at an instruction that the grammar
    does not allow. With `tolerant`, prints such an instruction as words, with the error as a
    comment.
    """
    limit = max(FREE_TEXT, MAX_TEXT_RATIO * 4 * len(module.words))

    def lines(names: Mapping[int, str], room: int | None) -> list[str] | None:
        return _Printer(module, names, INDENT if indent else 0, offsets, tolerant).lines(room)

    body = None if raw_ids else lines(friendly_names(module), limit)
    if body is None:
        body = lines({}, None) or []
    return "\n".join([*(_header(module) if header else ()), *body, ""])


def disassemble_file(
    source: str | os.PathLike[str], output: str | os.PathLike[str] | None = None, **options: bool
) -> str:
    """
    Disassembles a file and returns the text. If `output` is given, also writes the text to this
    file, atomically.

    `options` are the options of `disassemble`. Raises `SPIRVDecodeError` and `OSError`.
    """
    text = disassemble(decode(Path(source).read_bytes()), **options)
    if output is not None:
        write_atomically(output, text.encode("utf-8", "surrogateescape"))
    return text


def _header(module: RawModule) -> list[str]:
    header = module.header
    tool = header.generator >> 16
    name = grammar().generator(tool) or f"Unknown({tool})"
    lines = [
        "; SPIR-V",
        f"; Version: {header.version[0]}.{header.version[1]}",
        f"; Generator: {name}; {header.generator & 0xFFFF}",
        f"; Bound: {header.bound}",
        f"; Schema: {header.schema}",
    ]
    if module.byte_order == "big":
        lines.append("; Byte order: big")
    return lines


class _Ids(dict[int, str]):
    """Maps an id to `%name`. Raises `KeyError` for an id that is 0 or not below the id bound."""

    def __init__(self, names: Mapping[int, str], bound: int, instructions: int):
        # Most instructions have a result, so all ids are spelled at once.
        likely = range(1, bound) if bound <= instructions else range(0)
        super().__init__({i: f"%{names.get(i, i)}" for i in likely})
        self._names = names
        self._bound = bound

    def __missing__(self, key: int) -> str:
        if not 0 < key < self._bound:
            raise KeyError(key)
        text = self[key] = f"%{self._names.get(key, key)}"
        return text


class _Formats(dict[str, Callable[[RawOperand], str]]):
    def __init__(self, ids: _Ids):
        super().__init__()
        self["LiteralString"] = lambda o: quote(str(o.value))
        self["LiteralFloat"] = lambda o: format_number(int(o.value), FLOAT32)
        self["LiteralContextDependentNumber"] = _number
        self["LiteralInteger"] = _number
        self["LiteralExtInstInteger"] = _number
        self["LiteralSpecConstantOpInteger"] = lambda o: opcode_name(int(o.value))
        self._ids = ids

    def __missing__(self, kind: str) -> Callable[[RawOperand], str]:
        def enumeration(operand: RawOperand) -> str:
            return enumerants(kind, int(operand.value))

        def reference(operand: RawOperand) -> str:
            return self._ids[int(operand.value)]

        writer = self[kind] = reference if kind.startswith("Id") else enumeration
        return writer


class _Printer:
    def __init__(
        self,
        module: RawModule,
        names: Mapping[int, str],
        indent: int,
        offsets: bool,
        tolerant: bool,
    ):
        self.module = module
        self.ids = _Ids(names, module.header.bound, len(module))
        self.margin = " " * indent
        self.pad = max(0, indent - 3)
        self.offsets = offsets
        self.tolerant = tolerant
        self.symbols = module.symbols
        self.errors = 0
        self._formats = _Formats(self.ids)
        self._lines = [""] * len(module)
        self._room: int | None = None
        self._verbatim = bytearray(len(module))
        """States for each instruction if its line starts with a word (`!0x...`)."""

    def lines(self, limit: int | None) -> list[str] | None:
        """
        Returns a line for each instruction. Returns None if the text exceeds `limit` characters.
        """
        self._room = limit
        forms = Forms(self.symbols, self.margin, self.pad)
        rows = self.module.rows()
        for start in range(0, len(self.module), TOGETHER):
            singly: list[int] = []
            for form in forms.sort(itertools.islice(rows, TOGETHER), start):
                places, words = form.take()
                lines = self._table(form, words)
                if lines is None:
                    singly += places
                elif not self._put(places, lines):
                    return None
            for index in sorted(singly):
                self._one(index)
            if self._room is not None and self._room < 0:
                return None
        self._separate()
        if self.offsets:
            ends = (f" ; 0x{4 * start:08x}" for start in self.module.starts.data)
            return [line + end for line, end in zip(self._lines, ends, strict=True)]
        return self._lines

    def _table(self, form: Form, rows: list[list[int]]) -> Iterator[str] | None:
        layout, ids = form.columns, self.ids
        if layout is None:
            return None
        if not layout:
            return itertools.repeat(form.template, len(rows))
        places = zip(*rows, strict=True)
        next(places)
        texts: list[Iterable[str]] = []
        try:
            for column, words in zip(layout, places, strict=True):
                table = ids if column is None else column
                texts.append(list(map(table.__getitem__, words)))
        except KeyError:
            return None  # The slow path reports the exact fault.
        if form.shape.result is not None:
            texts.insert(0, texts.pop(form.shape.result))
        return map(form.template.__mod__, zip(*texts, strict=True))

    def _put(self, places: list[int], lines: Iterable[str]) -> bool:
        printed, room = self._lines, self._room
        if room is None:
            for place, line in zip(places, lines, strict=True):
                printed[place] = line
            return True
        for place, line in zip(places, lines, strict=True):
            printed[place] = line
            room -= len(line) + 1
            if room < 0:
                return False
        self._room = room
        return True

    def _one(self, index: int) -> None:
        instruction = self.module[index]
        line, verbatim = self._slow(instruction, shape(instruction.opcode))
        if verbatim:
            self._verbatim[index] = True
        self._lines[index] = line
        if self._room is not None:
            self._room -= len(line) + 1

    def _separate(self) -> None:
        """
        Prints an instruction as words if the next line consists of words. Otherwise, an assembler
        would read these words as operands of the instruction.
        """
        opcodes = self.module.opcodes
        index = self._verbatim.find(True)
        while index >= 0:
            before = index - 1
            while before >= 0 and not self._verbatim[before]:
                if not shape(int(opcodes[before])).takes_more:
                    break
                self._lines[before] = self._raw(self.module[before].words)
                before -= 1
            index = self._verbatim.find(True, index + 1)

    def _line(self, shaped: Shape, parts: list[str]) -> str:
        if shaped.result is not None:
            parts.insert(0, parts.pop(shaped.result))
        return shaped.template(self.margin, self.pad, len(parts)) % tuple(parts)

    def _slow(self, instruction: RawInstruction, shape: Shape) -> tuple[str, bool]:
        try:
            operands = self.symbols.operands(instruction)
        except SPIRVUnknownError:
            partly = self._partly(instruction, shape) if shape.known else None
            return self._raw(instruction.words) if partly is None else partly, partly is None
        except SPIRVDecodeError as error:
            if not self.tolerant:
                raise
            self.errors += 1
            text = self._raw(instruction.words)
            return text if self.errors > MAX_EXPLAINED else f"{text} ; {_comment(error)}", True
        portable = self._portable(instruction, operands) if shape.fussy else len(operands)
        formats = self._formats
        parts = [formats[o.kind](o) for o in operands[:portable]]
        if portable < len(operands):
            parts += self._words_behind(instruction, operands[portable:])
        if shape.extended:
            place = next(i for i, o in enumerate(operands) if o.kind == "LiteralExtInstInteger")
            called = int(operands[place - 1].value), int(operands[place].value)
            parts[place] = extended_name(self.symbols, *called, instruction.index)
        return self._line(shape, parts), False

    def _portable(self, instruction: RawInstruction, operands: list[RawOperand]) -> int:
        """Returns how many of the first operands `spirv-as` can read."""
        for place, operand in enumerate(operands):
            if operand.kind in UNREADABLE_KINDS:
                return place
            if operand.kind == "MemoryAccess" and int(operand.value).bit_count() > 1:
                # `spirv-as` reads a mask of several names only if it is optional.
                specs = operand_specs(instruction.opcode) or ()
                if any(s.kind == "MemoryAccess" and not s.quantifier for s in specs):
                    return place
        return len(operands)

    def _words_behind(self, instruction: RawInstruction, operands: list[RawOperand]) -> list[str]:
        places = [o.word for o in operands] + [len(instruction.words)]
        parts: list[str] = []
        for operand, end in zip(operands, places[1:], strict=True):
            if operand.kind.startswith("Id") and parts:
                parts.append(self.ids[int(operand.value)])
            else:
                parts += [f"!0x{w:08x}" for w in instruction.words[operand.word : end]]
        return parts

    def _raw(self, words: list[int]) -> str:
        return self.margin + " ".join(f"!0x{word:08x}" for word in words)

    def _partly(self, instruction: RawInstruction, shape: Shape) -> str | None:
        """
        Returns a line with the instruction's name, its leading ids, and all other words as numbers.
        Returns None if an id exceeds the bound.
        """
        first = shape.ids
        words = instruction.words[1:]
        try:
            parts = [self.ids[word] for word in words[:first]]
        except KeyError:
            return None
        return self._line(shape, parts + [f"!0x{word:08x}" for word in words[first:]])


def _number(operand: RawOperand) -> str:
    if operand.number is None:
        return str(operand.value)
    return format_number(int(operand.value), operand.number)


def quote(text: str) -> str:
    """Returns a string literal. Only quotes and backslashes are escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _comment(error: SPIRVDecodeError) -> str:
    return str(error).replace("\n", " ")


__all__: Sequence[str] = ["disassemble", "disassemble_file", "quote"]
