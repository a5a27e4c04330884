"""Finds out if a kernel guards an index, so that a launch may have more invocations than work."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.types import enumerant
from xdsl_spirv.tools.kernel_test.interface import Interface

INDICES = {"GlobalInvocationId", "LocalInvocationId", "LocalInvocationIndex", "WorkgroupId"}
"""Built-in variables that differ between the invocations of a launch."""

CHAIN = re.compile(r"(InBounds)?(Ptr)?AccessChain$")
COMPARISON = re.compile(r"[SU](Less|Greater)Than(Equal)?$")


def has_guard(interface: Interface) -> bool:
    """True if the kernel compares an invocation's index with a push constant or an array length."""
    m = interface.module
    indices = (id for id in interface.variables if INDICES & set(_built_ins(m, id)))
    pushed = (id for id in interface.variables if interface.storage(id) == "PushConstant")
    positions = _find_dependents(m, indices)
    sizes = _find_dependents(m, (*pushed, *(i.result for i in m.by_op["ArrayLength"])))
    compared = (i.words[3:5] for i in m.instructions if COMPARISON.match(i.op))
    return any({a, b} & positions and {a, b} & sizes for a, b in compared)


def _built_ins(m: Module, id: int) -> list[str]:
    decorations = (d for d in m.decorations[id] if d.name == "BuiltIn")
    return [enumerant("BuiltIn", int(d.parameters[0])) for d in decorations]


def _find_dependents(m: Module, seeds: Iterable[int]) -> set[int]:
    """Returns the ids of all values and local variables that depend on the seeds."""
    found, before = set(seeds), -1
    while before != len(found):
        before = len(found)
        for i in m.instructions:
            if not found.isdisjoint(_list_read(i)):
                found.add(_find_changed(m, i))
            callee = m.by_function.get(i.words[3]) if i.op == "FunctionCall" else None
            if callee is not None:
                passed = zip(callee.parameters, i.words[4:], strict=False)
                found.update(p.result for p, argument in passed if argument in found)
    return found - {0}


def _list_read(i: Instruction) -> list[int]:
    """Returns the ids that an instruction depends on, except the indices of a pointer."""
    if CHAIN.match(i.op) or i.op == "FunctionCall":
        return [i.words[3]]
    return [i.words[2]] if i.op == "Store" else i.ids()


def _find_changed(m: Module, i: Instruction) -> int:
    """
    Returns the id that an instruction changes: its result, the local variable that it stores to, or
    the function whose result it returns.
    """
    if i.op == "ReturnValue" and i.block is not None:
        return i.block.function.at.result
    if i.op != "Store":
        return i.result
    root = i.words[1]
    while CHAIN.match(m.op_of(root)):
        root = m.definitions[root].words[3]
    type_ = m.type_of(root)
    return root if type_ is not None and type_.storage in ("Function", "Private") else 0
