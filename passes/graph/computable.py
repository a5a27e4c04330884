"""Refuses values of types that kernels cannot compute with or store in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import (
    ArrayAttr,
    ComplexType,
    DictionaryAttr,
    IndexType,
    IntegerType,
    MemRefType,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.passes import refuse

WIDTHS = (1, 8, 16, 32, 64)
"""Widths in bits of the integers that kernels compute with."""


def refuse_types(function: FuncOp, pass_name: str) -> None:
    """Refuses the first operation with a value of a type that kernels cannot compute with."""
    for op in function.walk():
        for value in values_of(op):
            if (remedy := _remedy(value.type)) is not None:
                refuse(pass_name, op, f"kernels cannot compute with {value.type}: {remedy}")


def values_of(op: Operation) -> Iterator[SSAValue]:
    """Yields an operation's results and the arguments of its blocks."""
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


def change_notes(
    function: FuncOp, change: Callable[[Attribute, dict[str, Attribute]], None]
) -> None:
    """
    Calls `change(type, attributes)` for each argument and result of a function. The call may edit
    the attributes.
    """
    kinds = function.function_type
    for key, types in (("arg_attrs", kinds.inputs), ("res_attrs", kinds.outputs)):
        known = function.properties.get(key)
        entries = known.data if isinstance(known, ArrayAttr) else [DictionaryAttr({})] * len(types)
        notes: list[DictionaryAttr] = []
        for type, entry in zip(types, entries, strict=False):
            assert isinstance(entry, DictionaryAttr)
            note = dict(entry.data)
            change(type, note)
            notes.append(DictionaryAttr(note))
        function.properties[key] = ArrayAttr(notes)


def _remedy(type: Attribute) -> str | None:
    is_shaped = isinstance(type, TensorType | MemRefType)
    match type.element_type if is_shaped else type:
        case IntegerType() as element if element.width.data not in WIDTHS:
            wider = next((w for w in WIDTHS[1:] if w >= element.width.data), None)
            return f"use i{wider}" if wider else f"use integers of {WIDTHS[-1]} bits or fewer"
        case IndexType() if is_shaped:
            return "use i32 or i64, and arith.index_cast in bodies"
        case ComplexType():
            return "use separate tensors for the real and the imaginary parts"
        case _:
            return None
