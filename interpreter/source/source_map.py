"""
Maps each operation to its line in the source.

DebugScope and DebugLine are valid from their position to the end of the SPIR-V block. Blocks of the
dialect differ from SPIR-V blocks: after a selection or loop, a dialect block continues with another
SPIR-V block, and the first block of a selection or loop belongs to the SPIR-V block before it.
OpLine is the operation's location.

glslang declares a line only when it changes, even if a block ends in between. Instructions without
a line after a selection are therefore assigned to the selection's line, such as the store in `x = c
? a : b`.

A function without lines (as in Slang's library) gets the line of its call, if there is only one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Block, Operation

from xdsl_spirv.dialects.spirv.control_flow import FunctionCallOp, LoopOp, SelectionOp
from xdsl_spirv.dialects.spirv.enums import ShaderDebugInfo as Debug
from xdsl_spirv.dialects.spirv.structure import FuncOp, ModuleOp
from xdsl_spirv.interpreter.source.debug_info import DebugInfo, Entry, Operand, entry_of
from xdsl_spirv.interpreter.source.location import SourceLocation
from xdsl_spirv.interpreter.source.names import Names


@dataclass(frozen=True)
class State:
    """Debug state at an instruction: its scope, its inlined call, and its DebugLine."""

    scope: Operand | None = None
    inlined: Operand | None = None
    line: Entry | None = None

    def after(self, entry: Entry) -> State:
        """Returns the state after a debug instruction that changes it."""
        match entry.kind:
            case Debug.DebugScope:
                return replace(self, scope=entry.operand(0), inlined=entry.operand(1))
            case Debug.DebugNoScope:
                return replace(self, scope=None, inlined=None)
            case Debug.DebugLine:
                return replace(self, line=entry)
            case Debug.DebugNoLine:
                return replace(self, line=None)
            case _:
                return self


NOTHING = State()


class SourceMap:
    """
    Source locations of a module's operations, computed for each function on first use.

    The map stores no reference to operations, so it does not keep the module alive.
    """

    def __init__(self, module: ModuleOp):
        self.info = DebugInfo(module)
        self.names = Names(module)
        self._places: WeakKeyDictionary[Operation, SourceLocation | None] = WeakKeyDictionary()
        self._scopes: WeakKeyDictionary[Operation, Attribute] = WeakKeyDictionary()

    def location(self, op: Operation) -> SourceLocation | None:
        """Returns the location of an operation in the source, or None if it is not known."""
        if op not in self._places:
            function: Operation | None = op
            while function is not None and not isinstance(function, FuncOp):
                function = function.parent_op()
            if function is not None:
                self._read(function)
        return self._places.get(op)

    def scope(self, op: Operation) -> Attribute | None:
        """Returns the symbol of the debug scope of an operation, or None."""
        self.location(op)
        return self._scopes.get(op)

    def knows_lines(self) -> bool:
        """True if any operation that was read has a known line."""
        return any(place is not None for place in self._places.values())

    def _read(self, function: Operation) -> None:
        blocks: list[tuple[Block, State]] = [(b, NOTHING) for b in function.regions[0].blocks]
        while blocks:
            block, state = blocks.pop()
            selection: SourceLocation | None = None
            for op in block.ops:
                entry = entry_of(op)
                if entry is not None:
                    state = state.after(entry)
                place = self._location(op, state)
                selection = selection if place is None else None
                self._places[op] = place or selection
                if isinstance(state.scope, Attribute):
                    self._scopes[op] = state.scope
                if isinstance(op, SelectionOp | LoopOp):
                    first = op.regions[0].first_block
                    inner = op.regions[0].blocks
                    blocks += [
                        (inner_block, state if inner_block is first else NOTHING)
                        for inner_block in inner
                    ]
                    selection = self._places[op] if isinstance(op, SelectionOp) else None
                    state = NOTHING

        operations = list(function.walk())
        if all(self._places.get(op) is None for op in operations):
            place = self._place_of_calls(function)
            self._places.update(dict.fromkeys(operations, place))

    def _place_of_calls(self, function: Operation) -> SourceLocation | None:
        """
        Returns the location of the only call of a function. Returns None if there is not exactly
        one call.
        """
        module = function.parent_op()
        if module is None or not isinstance(function, FuncOp):
            return None
        name = function.sym_name.data
        calls = (op for op in module.walk() if isinstance(op, FunctionCallOp))
        places = {self.location(op) for op in calls if op.callee.string_value() == name}
        return places.pop() if len(places) == 1 else None

    def _location(self, op: Operation, state: State) -> SourceLocation | None:
        line = state.line
        if line is not None:
            file = self.info.file(line.operand(0)) or self.info.file_of_scope(state.scope)
            place = file, line.number(1), line.number(3)
        else:
            where = file_location(op)
            if where is None:
                return None
            place = where.filename.data, where.line.data, where.column.data
        return self.info.location(*place, state.scope, state.inlined)


def file_location(op: Operation) -> FileLineColLoc | None:
    """Returns the first file and line in an operation's location attribute, or None."""
    where: Any = op.location
    while not isinstance(where, FileLineColLoc):
        if isinstance(where, NameLoc):
            where = where.location
        elif isinstance(where, CallSiteLoc):
            where = where.callee
        elif isinstance(where, FusedLoc) and getattr(where.locations, "data", None):
            where = where.locations.data[0]  # pyright: ignore
        else:
            return None
    return where


_MAPS: WeakKeyDictionary[Operation, SourceMap] = WeakKeyDictionary()


def map_of(op: Operation) -> SourceMap | None:
    """Returns the source map of the `spirv.module` that contains an operation, or None."""
    module: Operation | None = op
    while module is not None and not isinstance(module, ModuleOp):
        module = module.parent_op()
    if module is None:
        return None
    source = _MAPS.get(module)
    if source is None:
        source = _MAPS[module] = SourceMap(module)
    return source


def source_of(op: Operation) -> SourceLocation | None:
    """Returns the location of an operation in its module's source, or None if it is not known."""
    source = map_of(op)
    if source is not None:
        return source.location(op)
    where = file_location(op)
    if where is None or where.line.data < 1:
        return None
    return SourceLocation(where.filename.data, where.line.data, where.column.data)


NO_LINES = (
    "compiled without debug information; compile with it (glslang -g, slang -g) to see source lines"
)


def hint_of(op: Operation) -> str:
    """
    Returns the hint to compile with debug information if a compiled module has no lines. Otherwise
    returns "".
    """
    source = map_of(op)
    if source is None or not source.names.compiled or source.location(op) is not None:
        return ""
    return "" if source.knows_lines() else NO_LINES


def in_source(op: Operation, text: str) -> str:
    """Replaces symbols of variables by source names in a message about an operation."""
    source = map_of(op)
    return text if source is None else source.names.renamed(text)


def name_of_buffer(op: Operation, place: tuple[int, ...]) -> str:
    """Returns the name of the buffer at (set, binding) in the module around an operation."""
    source = map_of(op)
    return f"set {place[0]}, binding {place[1]}" if source is None else source.names.buffer(place)
