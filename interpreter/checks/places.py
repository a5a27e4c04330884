"""Describes the location of a finding: instruction, source line, invocation and operand values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.spirv.raw import RawOp
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks.report import Finding, Place, Related
from xdsl_spirv.interpreter.source import hint_of, source_of
from xdsl_spirv.interpreter.source.location import quoted

LINES: WeakKeyDictionary[Operation, int] = WeakKeyDictionary()
"""Line number of each operation, recorded by the module's parser."""


def line_of(op: Operation) -> int:
    """Returns the line of an operation in its source or in the parsed text, or 0 if unknown."""
    line = LINES.get(op)
    if line is None:
        place = source_of(op)
        line = 0 if place is None else place.line
    return line


def locate(finding: Finding, op: Operation) -> None:
    """Sets the source location and text of a finding from its instruction."""
    finding.function, finding.text = function_of(op), text_of(op)
    finding.line, finding.source = line_of(op), source_of(op)
    finding.hint = hint_of(op)


def describe(op: Operation) -> str:
    """
    Returns the quoted source line of an operation. Without debug information, returns its text and
    line in the module.
    """
    place = source_of(op)
    if place is not None:
        return quoted(place, text_of(op))
    line = line_of(op)
    return text_of(op) + (f", line {line}" if line else "")


def relate(role: str, op: Operation, detail: str = "", *, head: str = "") -> Related:
    """
    Describes another operation that a finding mentions. `role` says how the operation is related to
    the finding.
    """
    return Related(role, op.name, text_of(op), line_of(op), source_of(op), detail, head)


def function_of(op: Operation) -> str:
    """Returns the name of the function around an operation."""
    parent = op.parent_op()
    while parent is not None:
        symbol = parent.properties.get("sym_name")
        if symbol is not None:
            return getattr(symbol, "data", str(symbol))
        parent = parent.parent_op()
    return ""


_NUMBERS: WeakKeyDictionary[Operation, int] = WeakKeyDictionary()
"""Cached index of each operation in its function. Valid only during a launch."""


def forget_numbers() -> None:
    """
    Clears the cached positions of instructions at a new launch, because modules may have changed.
    """
    _NUMBERS.clear()


def number_of(op: Operation) -> int:
    """Returns the position of an operation in its function, counted from 1."""
    known = _NUMBERS.get(op)
    if known is not None:
        return known
    function = op
    while function.parent_op() is not None and not function.properties.get("sym_name"):
        parent = function.parent_op()
        assert parent is not None
        function = parent
    numbers = {inner: number for number, inner in enumerate(function.walk())}
    if isinstance(function, FuncOp):
        _NUMBERS.update(numbers)
    return numbers.get(op, 0)


def name_of(value: SSAValue) -> str:
    """
    Returns a value's name. A value without a name is described by the position of its operation or
    argument.
    """
    if value.name_hint:
        return f"%{value.name_hint}"
    owner = value.owner
    if isinstance(owner, Operation):
        return f"#{number_of(owner)}"
    return f"argument {owner.args.index(value)}"  # pyright: ignore


def text_of(op: Operation) -> str:
    """Returns a short description of an operation: position, results, name and operands."""
    results = [f"%{result.name_hint}" for result in op.results if result.name_hint]
    head = f"{', '.join(results)} = " if results else ""
    operands = ", ".join(name_of(operand) for operand in op.operands)
    symbol = op.properties.get("variable") or op.properties.get("callee")
    name = f'{op.name} "{op.instruction.data}"' if isinstance(op, RawOp) else op.name
    text = f"#{number_of(op)}: {head}{name}"
    return " ".join(filter(None, (text, str(symbol) if symbol else "", operands)))


def place(batch: Batch, workgroup: int, subgroup: int, lane: int) -> Place:
    """Returns the workgroup id and invocation index of a lane of a chunk."""
    x, y, z = (int(axis[workgroup, 0, 0]) for axis in batch.workgroup_ids)
    return Place((x, y, z), int(batch.local_index[0, subgroup, lane]))


def values_at(values: Mapping[str, Any], shown: Iterable[Any], shape: tuple[int, ...]) -> list[str]:
    """Formats named values at the given invocations. Axes are (workgroup, subgroup, lane, ...)."""
    lines: list[str] = []
    for name, value in values.items():
        array = np.asarray(value)
        if array.ndim > 2 and array.shape[2] not in (1, shape[2]):
            continue  # The value has one lane entry for each component of a matrix.
        full = np.broadcast_to(array, tuple(shape) + array.shape[3:])
        texts = [_text(full[tuple(index)]) for index in shown]
        lines.append(f"{name}: {texts[0] if len(set(texts)) == 1 else ', '.join(texts)}")
    return lines


def _text(value: Any) -> str:
    array = np.asarray(value)
    if array.ndim == 0:
        return str(array.item() if array.dtype.kind in "biuf" else array)
    return str(array.tolist() if array.dtype.kind in "biuf" else array.astype(np.float32).tolist())
