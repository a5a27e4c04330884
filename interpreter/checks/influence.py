"""
Finds the memory that can change another memory's contents through values, addresses or branches.

A check uses this to tell if a difference may be caused by a race on other memory. The analysis is
conservative: for calls, and for pointers whose variable is not obvious, it may report an influence
that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from xdsl.ir import Block, Operation, SSAValue

from xdsl_spirv.dialects.spirv.control_flow import BranchConditionalOp, FunctionCallOp, SwitchOp
from xdsl_spirv.dialects.spirv.memory import VariableOp
from xdsl_spirv.interpreter.pointers import (
    CHAINS,
    accessed_pointer,
    is_write,
    named_variable,
    source_of_pointer,
    storage_of,
)

Node: TypeAlias = str | VariableOp | None
"""A module variable (by name), a function variable (its operation), or None for unknown memory."""


def memory_of(op: Operation, write: bool) -> Node:
    """Returns the memory that an instruction reads (or writes, with `write`)."""
    pointer = accessed_pointer(op, write)
    if pointer is None:
        return None
    source = source_of_pointer(pointer)
    return source.owner if isinstance(source.owner, VariableOp) else named_variable(source)


class Influence:
    """The data flow between the variables of a module."""

    def __init__(self, module: Operation):
        self.sources: dict[Node, set[Node]] = {}
        self.calls = any(isinstance(op, FunctionCallOp) for op in module.walk())
        for op in module.walk():
            if is_write(op):
                values = [*op.operands, *_conditions(op)]
                self.sources.setdefault(memory_of(op, True), set()).update(_read_by(values))

    def reaches(self, op: Operation, names: AbstractSet[str]) -> bool:
        """True if the memory accessed by an instruction can change the named variables."""
        if accessed_pointer(op, is_write(op)) is None or self.calls:
            return True
        start = memory_of(op, is_write(op))
        pending: list[Node] = [*names]
        seen: set[Node] = set(pending)
        while pending:
            node = pending.pop()
            if node is None or node == start:
                return True
            more = self.sources.get(node, set()) | self.sources.get(None, set())
            pending += more - seen
            seen |= more
        return start is None


def _read_by(values: Iterable[SSAValue]) -> set[Node]:
    """Returns the memory that is read to compute the values."""
    memories: set[Node] = set()
    pending, seen = [*values], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, Block):
            pending += _incoming(owner)
            continue
        pointer = next((o for o in owner.operands if storage_of(o) is not None), None)
        if pointer is not None and not isinstance(owner, CHAINS):
            memories.add(memory_of(owner, False))
        pending += owner.operands
        for region in owner.regions:
            pending += [o for op in region.walk() if _decides(op) for o in op.operands[:1]]
            pending += [
                o for block in region.blocks if block.last_op for o in block.last_op.operands
            ]
    return memories


def _decides(op: Operation) -> bool:
    return isinstance(op, BranchConditionalOp | SwitchOp)


def _incoming(block: Block) -> list[SSAValue]:
    """Returns the values that terminators pass to a block's arguments."""
    region = block.parent
    if region is None:
        return []
    operands: list[SSAValue] = []
    for other in region.blocks:
        last = other.last_op
        if last is not None and block in last.successors:
            operands += last.operands
    return operands


def _conditions(op: Operation) -> list[SSAValue]:
    """Returns the branch conditions of all regions around an instruction."""
    conditions: list[SSAValue] = []
    region = op.parent_region()
    while region is not None:
        for block in region.blocks:
            if block.last_op is not None and _decides(block.last_op):
                conditions += block.last_op.operands[:1]
        parent = region.parent
        region = None if parent is None else parent.parent_region()
    return conditions
