"""
Finds the source variables of a function and the locations of their values.

A source variable is stored in a SPIR-V variable that a DebugDeclare or a name points to. If an
optimizer replaced the variable by values, the last DebugValue has its value. If DebugValues of
different paths may apply, the variable is left out, because an old value would mislead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.interpreter.source.debug_info import DebugInfo, Entry, Operand, entry_of
from xdsl_spirv.interpreter.source.source_map import map_of


@dataclass(frozen=True)
class Local:
    """A source variable: its value, or a pointer to its value."""

    name: str
    value: SSAValue
    is_pointer: bool


def locals_at(op: Operation) -> list[Local]:
    """Returns the source variables that are visible at an operation and whose values are known."""
    source, function = map_of(op), _function(op)
    if source is None or function is None:
        return []
    scopes = list(source.info.scopes(source.scope(op)))
    pointers = _declared_variables(function, source.info, scopes)
    variables = [Local(name, value, True) for value, name in pointers.items()]
    known = set(pointers.values())
    values = _values(op, function, source.info, scopes)
    return variables + [local for local in values if local.name not in known]


def assigned_by(op: Operation) -> str:
    """
    Returns the name of the source variable that an operation assigns, also in part. Returns "" if
    there is none.
    """
    source, function = map_of(op), _function(op)
    if source is None or function is None:
        return ""
    if isinstance(op, spv.StoreOp):
        return _pointed_at(op.pointer, source.info)
    entries = [
        e for result in op.results for e in _entries_on(result, spv.ShaderDebugInfo.DebugValue)
    ]
    names = [_name(e, source.info) for e in entries if _is_whole(e, source.info)]
    # If the variable is also in memory, its store assigns it.
    known = set(_declared_variables(function, source.info, []).values()) if names else set[str]()
    return next((name for name in names if name not in known), "")


def read_by(op: Operation) -> str:
    """Returns the source name of the variable that a load reads. Returns "" if it is not known."""
    source = map_of(op)
    if source is None or not source.names.compiled or not op.operands:
        return ""
    return _pointed_at(op.operands[0], source.info)


def _pointed_at(pointer: SSAValue, info: DebugInfo) -> str:
    while isinstance(pointer.owner, spv.AccessChainOp | spv.InBoundsAccessChainOp):
        pointer = pointer.owner.operands[0]
    names = (_name(entry, info) for entry in _entries_on(pointer, spv.ShaderDebugInfo.DebugDeclare))
    return next(filter(None, names), pointer.name_hint or "")


def _entries_on(value: SSAValue, kind: spv.ShaderDebugInfo) -> Iterator[Entry]:
    entries = (entry_of(use.operation) for use in value.uses)
    return (entry for entry in entries if entry is not None and entry.kind is kind)


def _function(op: Operation) -> FuncOp | None:
    around: Operation | None = op
    while around is not None and not isinstance(around, FuncOp):
        around = around.parent_op()
    return around


def _declared_variables(
    function: FuncOp, info: DebugInfo, scopes: Sequence[Entry]
) -> dict[SSAValue, str]:
    """
    Returns the pointers to a function's variables, with their source names.

    Returns the variables of DebugDeclares in these `scopes`. If there is no DebugDeclare, returns
    all named variables, which may include temporaries.
    """
    names: dict[SSAValue, str] = {}
    declared: dict[SSAValue, str] = {}
    for op in function.walk():
        if isinstance(op, spv.VariableOp) and op.result.name_hint:
            names[op.result] = op.result.name_hint
        entry = entry_of(op)
        if entry is None or entry.kind is not spv.ShaderDebugInfo.DebugDeclare:
            continue
        pointer, name = entry.operand(1), _name(entry, info)
        if isinstance(pointer, SSAValue) and name and _is_accessed(pointer):
            declared[pointer] = name if _is_visible(entry, info, scopes) else ""
    chosen = declared or names
    return {pointer: name for pointer, name in chosen.items() if name}


def _is_accessed(pointer: SSAValue) -> bool:
    """
    True if an instruction uses a variable. A variable that an optimizer replaced by values is
    declared but not used.
    """
    return any(entry_of(use.operation) is None for use in pointer.uses)


def _is_visible(entry: Entry, info: DebugInfo, scopes: Sequence[Entry]) -> bool:
    """
    True if the variable of a debug entry belongs to one of the scopes, or if no scopes are given.
    """
    variable = info.entry(entry.operand(0), spv.ShaderDebugInfo.DebugLocalVariable)
    if variable is None or not scopes:
        return True
    parent = next(info.scopes(variable.operand(5)), None)
    return any(scope is parent for scope in scopes)


def _values(
    op: Operation, function: FuncOp, info: DebugInfo, scopes: Sequence[Entry]
) -> Iterator[Local]:
    """Yields the variables that have a valid DebugValue before an operation."""
    all_values: dict[str, set[Operand | None]] = {}
    for entry in _debug_values(function):
        all_values.setdefault(_name(entry, info), set()).add(entry.operand(1))
    known: dict[str, SSAValue | None] = {}
    for entry, is_certain in _before(op):
        name, value = _name(entry, info), entry.operand(1)
        certain = len(all_values[name]) == 1 if is_certain is None else is_certain
        usable = certain and _is_whole(entry, info) and _is_visible(entry, info, scopes)
        if not isinstance(value, SSAValue) or isinstance(value.owner, spv.UndefOp) or not usable:
            value = None
        known.setdefault(name, value)
    for name, value in reversed(known.items()):
        if value is not None and name:
            yield Local(name, value, False)


def _debug_values(op: Operation) -> Iterator[Entry]:
    entries = map(entry_of, op.walk())
    return (e for e in entries if e is not None and e.kind is spv.ShaderDebugInfo.DebugValue)


def _before(op: Operation) -> Iterator[tuple[Entry, bool | None]]:
    """
    Yields the DebugValues before an operation, nearest first, each with its validity.

    - True: in the operation's block. The value is valid.
    - False: inside another construct, which may not have run. The value is not valid.
    - None: in a block around the operation. The value is valid only if the variable has no other
      value.
    """
    around: Operation | None = op
    while around is not None and not isinstance(around, FuncOp):
        before = around.prev_op
        while before is not None:
            outside = True if around is op else None
            for entry in _debug_values(before):
                yield entry, False if before.regions else outside
            before = before.prev_op
        around = around.parent_op()


def _is_whole(entry: Entry, info: DebugInfo) -> bool:
    """True if a DebugValue gives the value of the whole variable."""
    if entry.kind is not spv.ShaderDebugInfo.DebugValue or len(entry.operands) > 3:
        return False
    expression = info.entry(entry.operand(2), spv.ShaderDebugInfo.DebugExpression)
    return expression is not None and not expression.operands


def _name(entry: Entry, info: DebugInfo) -> str:
    variable = info.entry(entry.operand(0), spv.ShaderDebugInfo.DebugLocalVariable)
    return "" if variable is None else info.string(variable.operand(0))
