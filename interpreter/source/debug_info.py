"""
Reads a module's debug information: OpString, OpSource and NonSemantic.Shader.DebugInfo.

An entry refers to other entries by symbols, and to numbers by constants. An entry is ignored if it
is missing, of the wrong kind, or refers to itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.dialects.builtin import BytesAttr, IntAttr, IntegerAttr, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter.source.location import SourceLocation, shown
from xdsl_spirv.interpreter.source.texts import Texts

SET = "NonSemantic.Shader.DebugInfo."
DEEPEST = 64
"""Maximum depth of nested calls or scopes that is followed."""

Operand: TypeAlias = Attribute | SSAValue


@dataclass(frozen=True)
class Entry:
    """One instruction of NonSemantic.Shader.DebugInfo: its kind and its operands."""

    kind: spv.ShaderDebugInfo
    operands: Sequence[Operand]

    def operand(self, number: int) -> Operand | None:
        """Returns the operand of this index, or None if there are fewer operands."""
        return self.operands[number] if number < len(self.operands) else None

    def number(self, number: int) -> int:
        """Returns the value of a constant or literal operand. Returns 0 for other operands."""
        return number_of(self.operand(number))


FILES = {
    spv.ShaderDebugInfo.DebugFunction: 2,
    spv.ShaderDebugInfo.DebugLexicalBlock: 0,
    spv.ShaderDebugInfo.DebugLexicalBlockDiscriminator: 0,
    spv.ShaderDebugInfo.DebugCompilationUnit: 2,
    spv.ShaderDebugInfo.DebugTypeComposite: 2,
}
"""Maps a kind of scope to the index of its operand that is the DebugSource."""
PARENTS = {
    spv.ShaderDebugInfo.DebugLexicalBlock: 3,
    spv.ShaderDebugInfo.DebugLexicalBlockDiscriminator: 2,
}
"""Maps a kind of scope inside functions to the index of its operand that is the parent scope."""


class DebugInfo:
    """The debug information of one module."""

    def __init__(self, module: Operation):
        self.texts = Texts()
        self.language = 0
        """Source language of the first OpSource. 0 if there is no OpSource."""
        self._entries: dict[str, Entry] = {}
        self._strings: dict[str, str] = {}
        self.variables: list[Entry] = []
        """The DebugGlobalVariable entries."""
        globals_ = [op for op in module.regions[0].block.ops if isinstance(op, spv.RawGlobalOp)]
        for op in globals_:
            self._read(op)
        for op in globals_:
            self._read_text(op)

    def _read(self, op: spv.RawGlobalOp) -> None:
        name = "" if op.sym_name is None else op.sym_name.data
        layout = op.layout.data
        if op.instruction.data == "OpString":
            self._strings[name] = text_of(layout[0] if layout else None)
        entry = entry_of(op)
        if entry is None:
            return
        self._entries[name] = entry
        if entry.kind is spv.ShaderDebugInfo.DebugGlobalVariable:
            self.variables.append(entry)

    def _read_text(self, op: spv.RawGlobalOp) -> None:
        """Collects source text from OpSource, DebugSource, or a continuation of either."""
        layout, name = op.layout.data, op.instruction.data
        if name == "OpSource":
            self.language = self.language or number_of(layout[0] if layout else None)
            file = self.string(layout[2]) if len(layout) > 2 else ""
            text = layout[3] if len(layout) > 3 else None
            self.texts.add(file, text_of(text))
        elif name == "OpSourceContinued":
            self.texts.extend(text_of(layout[0] if layout else None))
        entry = entry_of(op)
        if entry is None:
            return
        if entry.kind is spv.ShaderDebugInfo.DebugSource:
            self.texts.add(self.string(entry.operand(0)), self.string(entry.operand(1)))
        elif entry.kind is spv.ShaderDebugInfo.DebugSourceContinued:
            self.texts.extend(self.string(entry.operand(0)))

    def string(self, operand: Operand | None) -> str:
        """Returns the text of the OpString that an operand refers to."""
        return self._strings.get(_symbol(operand), "")

    def entry(self, operand: Operand | None, *kinds: spv.ShaderDebugInfo) -> Entry | None:
        """
        Returns the entry that an operand refers to. Returns None if its kind is not in `kinds`.
        """
        entry = self._entries.get(_symbol(operand))
        return entry if entry is not None and entry.kind in kinds else None

    def file(self, operand: Operand | None) -> str:
        """Returns the file name of a DebugSource."""
        source = self.entry(operand, spv.ShaderDebugInfo.DebugSource)
        return "" if source is None else self.string(source.operand(0))

    def scopes(self, scope: Operand | None) -> Iterator[Entry]:
        """
        Yields a scope inside a function, and then the scopes around it, ending with the function.
        """
        for _ in range(DEEPEST):
            entry = self.entry(scope, *FILES)
            if entry is None:
                return
            yield entry
            if entry.kind not in PARENTS:
                return
            scope = entry.operand(PARENTS[entry.kind])

    def function(self, scope: Operand | None) -> str:
        """Returns the name of the function that contains a scope."""
        for entry in self.scopes(scope):
            if entry.kind is spv.ShaderDebugInfo.DebugFunction:
                return self.string(entry.operand(0))
        return ""

    def file_of_scope(self, scope: Operand | None) -> str:
        """Returns the file in which a scope begins."""
        entry = next(self.scopes(scope), None)
        return "" if entry is None else self.file(entry.operand(FILES[entry.kind]))

    def location(
        self,
        file: str,
        line: int,
        column: int,
        scope: Operand | None = None,
        inlined: Operand | None = None,
    ) -> SourceLocation | None:
        """
        Creates a source location. It includes the locations of the inlined calls through which it
        was reached. Returns None for line 0.
        """
        if not file or line < 1:
            return None
        calls: list[tuple[str, int, str]] = []
        while len(calls) < DEEPEST:
            call = self.entry(inlined, spv.ShaderDebugInfo.DebugInlinedAt)
            if call is None:
                break
            around = call.operand(1)
            calls.append((self.file_of_scope(around), call.number(0), self.function(around)))
            inlined = call.operand(2)
        place = None
        for name, number, function in reversed(calls):
            if name and number > 0:
                text = self.texts.line(name, number)
                place = _location(name, number, 0, text, function, place)
        text = self.texts.line(file, line)
        return _location(file, line, column, text, self.function(scope), place)


def _location(
    file: str, line: int, column: int, text: str, function: str, call: SourceLocation | None
) -> SourceLocation:
    """
    Creates a location. Removes the ./ that glslang writes in front of the names of included files.
    """
    return SourceLocation(file.removeprefix("./"), line, column, shown(text), function, call)


def entry_of(op: Operation) -> Entry | None:
    """Returns the debug-information entry of an operation, or None for other operations."""
    if not isinstance(op, spv.RawGlobalOp | spv.Carried):
        return None
    layout = op.layout.data
    if len(layout) < 2 or not op.instruction.data.startswith("OpExtInst"):
        return None
    head, number, *rest = layout
    if not isinstance(head, spv.ExtendedSetAttr) or not head.data.startswith(SET):
        return None
    try:
        kind = spv.ShaderDebugInfo(number_of(number))
    except ValueError:
        return None
    values = iter(op.operands)
    return Entry(kind, [next(values) if part == spv.VALUE else part for part in rest])


def number_of(operand: Operand | None) -> int:
    """Returns the value of a literal or constant. Returns 0 for other operands."""
    if isinstance(operand, SSAValue):
        owner = operand.owner
        operand = owner.value if isinstance(owner, spv.ConstantOp) else None
    if isinstance(operand, spv.ConstantRefAttr):
        operand = operand.value
    constant: Any = operand
    if isinstance(operand, IntegerAttr):
        return int(constant.value.data) & 0xFFFFFFFF
    return int(constant.data) if isinstance(operand, IntAttr) else 0


def text_of(operand: Operand | None) -> str:
    """Returns the text of a literal string. Returns "" for other operands."""
    if isinstance(operand, BytesAttr):
        return operand.data.decode("utf-8", "replace")
    return operand.data if isinstance(operand, StringAttr) else ""


def _symbol(operand: Operand | None) -> str:
    return operand.string_value() if isinstance(operand, SymbolRefAttr) else ""
