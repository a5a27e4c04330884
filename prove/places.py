"""Computes offsets in memory, and finds the source names of struct members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import IntAttr, VectorType
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.spirv.layout import (
    array_stride,
    matrix_stride,
    member_offsets,
    size_in_bytes,
)
from xdsl_spirv.dialects.spirv.raw import RawGlobalOp
from xdsl_spirv.dialects.spirv.structure import GlobalVariableOp, ModuleOp
from xdsl_spirv.dialects.spirv.types import ArrayType, MatrixType, RuntimeArrayType, StructType
from xdsl_spirv.prove.meaning import resize
from xdsl_spirv.prove.values import Scalar, Term, z3


def member_names(module: ModuleOp, struct: StructType) -> list[str]:
    """Returns the source names of a struct's members. Unnamed members are `member0`, ..."""
    names = [f"member{number}" for number, _ in enumerate(struct.member_types)]
    for op in module.body.block.ops:
        if isinstance(op, RawGlobalOp) and op.instruction.data == "OpMemberName":
            type, number, name = op.layout.data
            if type == struct and isinstance(number, IntAttr):
                names[number.data] = getattr(name, "data", "") or names[number.data]
    return names


def find_offset(type: Attribute, path: Sequence[Scalar]) -> tuple[int, list[int]]:
    """
    Returns (offset, strides): the byte offset of the part that a path selects, with unknown
    indices taken as 0, and the byte stride of each unknown index.
    """
    offset, steps = 0, list[int]()
    for index in path:
        known = index.term.as_long() if z3.is_bv_value(index.term) else None
        if isinstance(type, StructType):
            assert known is not None
            offset, type = offset + member_offsets(type)[known], type.member_types[known]
            continue
        step, type = step_of(type)
        if known is None:
            steps.append(step)
        else:
            offset += known * step
    return offset, steps


def leaf_offsets(type: Attribute, offset: int = 0) -> Iterator[int]:
    """Yields the byte offsets of a value's scalars, in order."""
    if isinstance(type, StructType):
        for start, member in zip(member_offsets(type), type.member_types, strict=True):
            yield from leaf_offsets(member, offset + start)
        return
    match type:
        case VectorType():
            (count,) = type.get_shape()
        case ArrayType():
            count = getattr(type.length, "data", 0)
        case MatrixType():
            count = type.columns.data
        case _:
            yield offset
            return
    step, element = step_of(type)
    for number in range(count):
        yield from leaf_offsets(element, offset + number * step)


def step_of(type: Attribute) -> tuple[int, Attribute]:
    """
    Returns the distance in bytes from one part of an array, vector or matrix to the next, and the
    type of a part (an element, a component, or a column).
    """
    match type:
        case ArrayType() | RuntimeArrayType():
            return array_stride(type), type.element_type
        case MatrixType():
            return matrix_stride(type), type.column_type
        case VectorType():
            return size_in_bytes(type.element_type), type.element_type
        case _:
            raise AssertionError(f"{type} has no parts")


def find_aliases(symbols: Mapping[str, Operation]) -> dict[Hashable, Hashable]:
    """Maps the symbol of each variable with a shared binding to the binding."""
    bound = {
        symbol: (op.descriptor_set, op.binding)
        for symbol, op in symbols.items()
        if isinstance(op, GlobalVariableOp) and op.binding is not None
    }
    times = Counter(bound.values())
    return {symbol: binding for symbol, binding in bound.items() if times[binding] > 1}


def byte_range(type: Attribute, path: Sequence[Scalar], part: Attribute) -> tuple[Term, int]:
    """
    Returns the bytes of the part that a path selects in `type`: their offset as a 64-bit term, and
    their number, which is the size of the type `part`.
    """
    first, steps = find_offset(type, path)
    offset = z3.BitVecVal(first, 64)
    unknown = [index.term for index in path if not z3.is_bv_value(index.term)]
    for term, step in zip(unknown, steps, strict=True):
        offset = offset + resize(term, 64, True) * step
    return offset, size_in_bytes(part)
