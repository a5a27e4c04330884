"""
The variables of a function as its source has them, and what holds their values.

A variable lives in a SPIR-V variable that DebugDeclare or a name belongs to, or, once an optimizer
has made values of it, in what DebugValue says last. Which of several DebugValues on different ways
counts is not looked for: a variable is left out rather than shown as it was before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.spirv.enums import ShaderDebugInfo as Debug
from xdsl_spirv.dialects.spirv.memory import (
    AccessChainOp,
    InBoundsAccessChainOp,
    StoreOp,
    VariableOp,
)
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.interpreter.source.debug_info import DebugInfo, Entry, entry_of
from xdsl_spirv.interpreter.source.source_map import map_of


@dataclass(frozen=True)
class Local:
    """A variable: the value it has, or the pointer to where it is."""

    name: str
    value: SSAValue
    is_pointer: bool


def locals_at(op: Operation) -> list[Local]:
    """The variables that are known at an operation, in the function's order, inner ones last."""
    found = map_of(op)
    function = _function(op)
    if found is None or function is None:
        return []
    declared = _declared(function, found.info)
    variables = [Local(name, value, True) for value, name in declared.items()]
    return variables + list(_values(op, function, found.info))


def assigned_by(op: Operation) -> str:
    """The variable that an operation gives a value to, whole or in part; empty if it is none."""
    found, function = map_of(op), _function(op)
    if found is None or function is None:
        return ""
    if isinstance(op, StoreOp):
        pointer = op.pointer
        while isinstance(pointer.owner, AccessChainOp | InBoundsAccessChainOp):
            pointer = pointer.owner.operands[0]
        return _declared(function, found.info).get(pointer, "")
    for result in op.results:
        for use in result.uses:
            entry = entry_of(use.operation)
            if entry is not None and _is_whole(entry, found.info):
                return _name(entry, found.info)
    return ""


def _function(op: Operation) -> FuncOp | None:
    around: Operation | None = op
    while around is not None and not isinstance(around, FuncOp):
        around = around.parent_op()
    return around


def _declared(function: FuncOp, info: DebugInfo) -> dict[SSAValue, str]:
    """
    The pointers to a function's variables, and their names; those that DebugDeclare names, or, as
    temporaries have names as well, only without any all that are named.
    """
    names: dict[SSAValue, str] = {}
    declared: dict[SSAValue, str] = {}
    for op in function.walk():
        if isinstance(op, VariableOp) and op.result.name_hint:
            names[op.result] = op.result.name_hint
        entry = entry_of(op)
        if entry is None or entry.kind is not Debug.DebugDeclare:
            continue
        pointer, name = entry.operand(1), _name(entry, info)
        if isinstance(pointer, SSAValue) and name:
            declared[pointer] = name
    return declared or names


def _values(op: Operation, function: FuncOp, info: DebugInfo) -> Iterator[Local]:
    """What DebugValues before an operation say, in its block and in those around it."""
    counts = Counter(_name(entry, info) for entry in _debug_values(function))
    known: dict[str, SSAValue | None] = {}
    for entry, is_last in _before(op):
        name, value = _name(entry, info), entry.operand(1)
        usable = (is_last or counts[name] == 1) and _is_whole(entry, info)
        known.setdefault(name, value if usable and isinstance(value, SSAValue) else None)
    for name, value in reversed(known.items()):
        if value is not None and name:
            yield Local(name, value, False)


def _debug_values(op: Operation) -> Iterator[Entry]:
    """The DebugValues inside an operation."""
    entries = map(entry_of, op.walk())
    return (e for e in entries if e is not None and e.kind is Debug.DebugValue)


def _before(op: Operation) -> Iterator[tuple[Entry, bool]]:
    """
    The DebugValues before an operation, the nearest first, of its block and of those around it;
    whether it is sure that none comes in between.
    """
    around: Operation | None = op
    while around is not None and not isinstance(around, FuncOp):
        before = around.prev_op
        while before is not None:
            for entry in _debug_values(before):
                yield entry, around is op and not before.regions
            before = before.prev_op
        around = around.parent_op()


def _is_whole(entry: Entry, info: DebugInfo) -> bool:
    """Whether a DebugValue says what the whole variable is."""
    if entry.kind is not Debug.DebugValue or len(entry.operands) > 3:
        return False
    expression = info.entry(entry.operand(2), Debug.DebugExpression)
    return expression is not None and not expression.operands


def _name(entry: Entry, info: DebugInfo) -> str:
    """The name of the variable that a DebugDeclare or DebugValue is about."""
    variable = info.entry(entry.operand(0), Debug.DebugLocalVariable)
    return "" if variable is None else info.string(variable.operand(0))
