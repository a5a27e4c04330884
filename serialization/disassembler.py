"""
Prints a module as the assembly of Khronos' tools, so that assembling gives the same words back.

The text is what `spirv-dis` prints, to the character, wherever it prints anything. What it refuses
(unknown opcodes, enumerants and extended instructions, strings and numbers with stray bits) stands
in the text as the words themselves, `!0x...`, which every assembler of the language copies.
The header is in the leading comments, from which our assembler takes it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from xdsl_spirv.serialization.binary import RawInstruction, RawModule, decode
from xdsl_spirv.serialization.files import write_atomically
from xdsl_spirv.serialization.friendly_names import friendly_names
from xdsl_spirv.serialization.grammar import grammar
from xdsl_spirv.serialization.literals import FLOAT32, format_number
from xdsl_spirv.serialization.operands import RawOperand, Spec, enum_table, plan
from xdsl_spirv.serialization.raw_errors import SPIRVDecodeError, SPIRVUnknownError

INDENT = 15
"""The column of the instruction's name."""

MAX_TEXT_RATIO = 16
"""
Friendly names are given up when they make the text longer than this many times the binary.

Only hostile modules do: every use of a name repeats it, and names may be long.
"""

NUMBERED_SETS = re.compile(
    r"NonSemantic\.(DebugPrintf|DebugBreak|Graph\..*|Shader\.DebugInfo\.(?!100$).*)"
)
"""
Instruction sets whose instructions are printed by number.

Assemblers of 2025 know no names in these sets, and newer ones take both.
"""

UNREADABLE_KINDS = frozenset(("InitializationModeQualifier",))
"""Enumerations that `spirv-as` has names for but cannot read."""

MAX_EXPLAINED = 100
"""Errors that a tolerant disassembly explains; in noise, every instruction is one."""

GLSL = "GLSL.std.450"
"""The set of which kernels are full: its instructions are printed the fast way."""

EXTENDED_OPERANDS = 5
"""Where the operands of an extended instruction begin: behind type, result, set and number."""

FREE_TEXT = 1 << 16
"""No text of up to this many characters is too long."""


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
    The module's assembly text.

    `raw_ids` prints `%12` where names are the default; `offsets` adds each instruction's place in
    bytes. Raises `SPIRVDecodeError` at an instruction that the grammar contradicts, unless
    `tolerant`, which prints its words and the error in a comment.
    """
    names: Mapping[int, str] = {} if raw_ids else friendly_names(module)
    printer = _Printer(module, names, INDENT if indent else 0, offsets, tolerant)
    limit = max(FREE_TEXT, MAX_TEXT_RATIO * 4 * len(module.words))
    text = _joined(_header(module) if header else [], printer.lines(), None if raw_ids else limit)
    if text is not None:
        return text
    return disassemble(
        module, raw_ids=True, header=header, indent=indent, offsets=offsets, tolerant=tolerant
    )


def disassemble_file(
    source: str | os.PathLike[str], output: str | os.PathLike[str] | None = None, **options: bool
) -> str:
    """
    Disassembles a file; with `output` the text is also written there, all of it or nothing.

    `options` are those of `disassemble`. Raises `SPIRVDecodeError` and `OSError`.
    """
    text = disassemble(decode(Path(source).read_bytes()), **options)
    if output is not None:
        write_atomically(output, text.encode("utf-8", "surrogateescape"))
    return text


def _joined(header: list[str], lines: Iterator[str], limit: int | None) -> str | None:
    """All lines, or None if they are longer than `limit`."""
    kept: list[str] = []
    length = 0
    chunk = header
    for line in lines:
        chunk.append(line)
        length += len(line) + 1
        if limit is not None and length > limit:
            return None
        if len(chunk) == 1000:
            # A thousand lines in one string need a fraction of the memory of a thousand strings.
            kept.append("\n".join(chunk))
            chunk = []
    kept.append("\n".join([*chunk, ""]))
    return "\n".join(kept)


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
    """Id -> `%name`; raises `KeyError` for what is no id of the module."""

    def __init__(self, names: Mapping[int, str], bound: int, instructions: int):
        # Most instructions have a result, so all of a real module's ids are made at once.
        likely = range(1, bound) if bound <= instructions else range(0)
        super().__init__({i: f"%{names.get(i, i)}" for i in likely})
        self._names = names
        self._bound = bound

    def __missing__(self, key: int) -> str:
        if not 0 < key < self._bound:
            raise KeyError(key)
        text = self[key] = f"%{self._names.get(key, key)}"
        return text


class _Integers(dict[int, str]):
    def __missing__(self, key: int) -> str:
        return str(key)


_INTEGERS = _Integers()


class _Masks(dict[int, str]):
    """A mask without parameters -> its text; raises `KeyError` for every other."""

    def __init__(self, kind: str):
        super().__init__()
        self._kind = kind
        table = enum_table(kind)
        self._most = 1 if kind == "MemoryAccess" else len(table.names)
        self._plain = sum(v for v in table.names if v not in table.parameters)

    def __missing__(self, key: int) -> str:
        # `spirv-as` does not read every mask of several names: the slow way knows which.
        if key & ~self._plain or key.bit_count() > self._most:
            raise KeyError(key)
        text = self[key] = _enumerants(self._kind, key)
        return text


class _Shape:
    """How to print an instruction whose operands are one word each."""

    def __init__(self, opcode: int):
        specs = plan(opcode)
        entry = grammar().by_opcode(opcode)
        self.known = specs is not None
        self.name = entry.name if entry else ""
        self.takes_more = _takes_more(specs or ())
        self.result = next((i for i, s in enumerate(specs or ()) if s.kind == "IdResult"), None)
        self.least = sum(not s.quantifier for s in specs or ())
        self.columns: list[Mapping[int, str] | None] = []
        """How to print each operand; None stands for an id."""
        self.tail: list[Mapping[int, str] | None] = []
        """How to print each word of one repetition behind the columns; empty if there is none."""
        for spec in specs or ():
            # The literals of OpSwitch's pairs are as wide as its selector.
            if spec.quantifier == "*" and spec.kind != "PairLiteralIntegerIdRef":
                parts = [_simple(part) for part in (spec.parts or (spec,))]
                self.tail = [part[0] for part in parts if part] if all(parts) else []
            simple = _simple(spec)
            if spec.quantifier == "*" or not simple:
                break
            self.columns.append(simple[0])
        kinds = {spec.kind for spec in specs or ()}
        self.fussy = bool(kinds & {"MemoryAccess", "Decoration"})
        """Whether `spirv-as` may not read what spirv-dis prints."""
        self.extended = "LiteralExtInstInteger" in kinds

    def row(self, operands: int) -> list[Mapping[int, str] | None] | None:
        """How to print each of that many words, None if it takes more than the words to know."""
        tail = operands - len(self.columns)
        if operands < self.least or not self.known:
            return None
        if tail <= 0:
            return self.columns[:operands]
        if not self.tail or tail % len(self.tail):
            return None
        return self.columns + self.tail * (tail // len(self.tail))


def _simple(spec: Spec) -> tuple[Mapping[int, str] | None] | None:
    if spec.form == "id":
        return (None,)
    if spec.form == "integer":
        return (_INTEGERS,)
    if spec.form == "value":
        table = enum_table(spec.kind)
        return ({v: n for v, n in table.names.items() if v not in table.parameters},)
    if spec.form == "mask" and spec.kind not in UNREADABLE_KINDS:
        return (_Masks(spec.kind),)
    return None


@cache
def _shape(opcode: int) -> _Shape:
    return _Shape(opcode)


class _Recipe:
    """How to print the instructions that share a first word, which is opcode and length."""

    __slots__ = ("all_ids", "row", "shape", "simple", "takes_more")

    def __init__(self, first: int):
        self.shape = _shape(first & 0xFFFF)
        row = self.shape.row((first >> 16) - 1)
        self.simple = row is not None
        self.row: list[Mapping[int, str] | None] = row or []
        self.all_ids = not any(column is not None for column in self.row)
        self.takes_more = self.shape.takes_more


class _Formats(dict[str, Callable[[RawOperand], str]]):
    """Operand kind -> how to print an operand of it."""

    def __init__(self, ids: _Ids):
        super().__init__()
        self["LiteralString"] = lambda o: quote(str(o.value))
        self["LiteralFloat"] = lambda o: format_number(int(o.value), FLOAT32)
        self["LiteralContextDependentNumber"] = _number
        self["LiteralInteger"] = _number
        self["LiteralExtInstInteger"] = _number
        self["LiteralSpecConstantOpInteger"] = lambda o: _opcode_name(int(o.value))
        self._ids = ids

    def __missing__(self, kind: str) -> Callable[[RawOperand], str]:
        def enumeration(operand: RawOperand) -> str:
            return _enumerants(kind, int(operand.value))

        def reference(operand: RawOperand) -> str:
            return self._ids[int(operand.value)]

        made = self[kind] = reference if kind.startswith("Id") else enumeration
        return made


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
        self._called: dict[tuple[int, int], tuple[str, int] | None] = {}

    def lines(self) -> Iterator[str]:
        """
        One line an instruction.

        An assembler takes a word behind an instruction that could have one more operand for that
        operand. So such instructions wait for what follows them, and are words themselves if a
        line that starts with a word does.
        """
        held: list[tuple[list[int], str]] = []
        recipes: dict[int, _Recipe] = {}
        for index, words in enumerate(self.module.rows()):
            first = words[0]
            recipe = recipes.get(first)
            if recipe is None:
                recipe = recipes[first] = _Recipe(first)
            if recipe.shape.extended:
                text = self._fast_extended(recipe.shape, words, index)
            else:
                text = self._fast(recipe, words)
            verbatim = False
            if text is None:
                text, verbatim = self._slow(self.module[index], recipe.shape)
            if self.offsets:
                text += f" ; 0x{4 * int(self.module.starts[index]):08x}"
            if recipe.takes_more and not verbatim:
                held.append((words, text))
                continue
            if held:
                for before, line in held:
                    yield self._raw(before) if verbatim else line
                held.clear()
            yield text
        for _, line in held:
            yield line

    def _fast(self, recipe: _Recipe, words: list[int]) -> str | None:
        """The line of an instruction whose operands are one word each, None if it is another."""
        if not recipe.simple:
            return None
        ids = self.ids
        try:
            if recipe.all_ids:
                parts = list(map(ids.__getitem__, words[1:]))
            else:
                parts = [
                    ids[word] if column is None else column[word]
                    for column, word in zip(recipe.row, words[1:], strict=True)
                ]
        except KeyError:
            return None  # Whatever it is, the slow way says it precisely.
        return self._line(recipe.shape, parts)

    def _fast_extended(self, shape: _Shape, words: list[int], index: int) -> str | None:
        """The line of an extended instruction on ids only, None if it is another."""
        if len(words) < EXTENDED_OPERANDS:
            return None
        key = words[3], words[4]
        if key not in self._called:
            self._called[key] = self._callee(*key, index)
        callee = self._called[key]
        if callee is None or len(words) - EXTENDED_OPERANDS != callee[1]:
            return None
        ids = self.ids
        try:
            parts = [ids[word] for word in words[1:4]]
            parts.append(callee[0])
            parts += [ids[word] for word in words[EXTENDED_OPERANDS:]]
        except KeyError:
            return None
        return self._line(shape, parts)

    def _callee(self, imported: int, number: int, index: int) -> tuple[str, int] | None:
        """Name and number of operands of an instruction of GLSL.std.450, all of them ids."""
        try:
            known = self.symbols.instruction_set(imported, index)
        except KeyError:
            return None
        if known != GLSL:
            return None
        entry = grammar().by_extended_opcode(known, number)
        if entry is None or any(o.quantifier or o.kind != "IdRef" for o in entry.operands):
            return None
        return entry.name, len(entry.operands)

    def _line(self, shape: _Shape, parts: list[str]) -> str:
        if shape.result is None:
            parts.insert(0, self.margin + shape.name)
        else:
            parts.insert(0, f"{parts.pop(shape.result):>{self.pad}} = {shape.name}")
        return " ".join(parts)

    def _slow(self, instruction: RawInstruction, shape: _Shape) -> tuple[str, bool]:
        """The line, and whether it starts with a word instead of a name."""
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
            parts[place] = self._extended(operands[place - 1], operands[place], instruction.index)
        return self._line(shape, parts), False

    def _portable(self, instruction: RawInstruction, operands: list[RawOperand]) -> int:
        """How many operands `spirv-as` can read as they are printed."""
        for place, operand in enumerate(operands):
            if operand.kind in UNREADABLE_KINDS:
                return place
            if operand.kind == "MemoryAccess" and int(operand.value).bit_count() > 1:
                # It reads a mask of several names only where it is optional.
                specs = plan(instruction.opcode) or ()
                if any(s.kind == "MemoryAccess" and not s.quantifier for s in specs):
                    return place
        return len(operands)

    def _words_behind(self, instruction: RawInstruction, operands: list[RawOperand]) -> list[str]:
        """Operands as words and ids, which an assembler reads behind a word."""
        places = [o.word for o in operands] + [len(instruction.words)]
        parts: list[str] = []
        for operand, end in zip(operands, places[1:], strict=True):
            if operand.kind.startswith("Id") and parts:
                parts.append(self.ids[int(operand.value)])
            else:
                parts += [f"!0x{w:08x}" for w in instruction.words[operand.word : end]]
        return parts

    def _extended(self, imported: RawOperand, operand: RawOperand, index: int) -> str:
        """An extended instruction's name, its number in a set that is unknown."""
        known = self.symbols.instruction_set(int(imported.value), index)
        if known is None or NUMBERED_SETS.fullmatch(self.symbols.imports[int(imported.value)]):
            return str(operand.value)
        entry = grammar().by_extended_opcode(known, int(operand.value))
        return str(operand.value) if entry is None else entry.name

    def _raw(self, words: list[int]) -> str:
        return self.margin + " ".join(f"!0x{word:08x}" for word in words)

    def _partly(self, instruction: RawInstruction, shape: _Shape) -> str | None:
        """A known instruction with unknown operands: name and ids, then words; None if no ids."""
        columns = enumerate(shape.columns)
        first = next((i for i, c in columns if c is not None), len(shape.columns))
        words = instruction.words[1:]
        try:
            parts = [self.ids[word] for word in words[:first]]
        except KeyError:
            return None
        return self._line(shape, parts + [f"!0x{word:08x}" for word in words[first:]])


def _takes_more(specs: tuple[Spec, ...]) -> bool:
    """Whether an assembler would take a word behind such an instruction for an operand."""
    if not specs:
        return False
    last = specs[-1]
    if last.form in ("value", "mask"):
        return bool(last.quantifier or enum_table(last.kind).parameters)
    return bool(last.quantifier) or last.form in ("extended", "opcode")


def _number(operand: RawOperand) -> str:
    if operand.number is None:
        return str(operand.value)
    return format_number(int(operand.value), operand.number)


def _opcode_name(opcode: int) -> str:
    entry = grammar().by_opcode(opcode)
    return str(opcode) if entry is None else entry.name.removeprefix("Op")


@cache
def _enumerants(kind: str, value: int) -> str:
    """An enumerant's name, or a mask's, joined by `|` from the lowest bit."""
    names = enum_table(kind).names
    if value in names:
        return names[value]
    return "|".join(names[1 << i] for i in range(value.bit_length()) if value >> i & 1)


def quote(text: str) -> str:
    """A string literal; only the quote and the backslash are escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _comment(error: SPIRVDecodeError) -> str:
    return str(error).replace("\n", " ")


__all__: Sequence[str] = ["disassemble", "disassemble_file", "quote"]
