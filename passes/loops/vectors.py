"""
Loads and stores of neighbouring elements become vector loads and stores.

    %0 = memref.load %m[%i]                %v = memref.load %vectors[%i / 4]
    %1 = memref.load %m[%i + 1]     ->     %0 = vector.extract %v[0]
    ...                                    ...

A buffer is seen as elements or as vectors, not as both: it changes only if every access of it is
one of a complete row of neighbours whose first is a multiple of the vector's length. A vector has
at most 4 components: 8 halves are moved as 4 words.
"""

from __future__ import annotations

from math import gcd

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import (
    Float16Type,
    Float32Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp, bit_width
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter, may_be_negative
from xdsl_spirv.passes.schedule.tiles import vector_type

Row = list[memref.LoadOp | memref.StoreOp]

MOST_BITS = 128
"""Bits that an invocation moves at a time."""


def use_vectors(builder: HoistingEmitter, arguments: tuple[SSAValue, ...], elements: int) -> None:
    """
    Move as many neighbours of the arguments' elements at a time as all accesses allow, at most
    `elements` and 16 bytes.
    """
    for argument in arguments:
        for width in (8, 4, 2):
            rows = _rows(builder, argument, width) if elements % width == 0 else []
            if rows:
                _change(builder, argument, rows, width)
                break


def _is_movable(element: Attribute, width: int) -> bool:
    if not isinstance(element, Float16Type | Float32Type | IntegerType):
        return False
    bits = bit_width(element)
    return bits >= 8 and bits * width <= MOST_BITS


def _rows(builder: HoistingEmitter, argument: SSAValue, width: int) -> list[Row]:
    """Groups all accesses of a buffer as rows of neighbours; empty if one does not fit."""
    type = argument.type
    if not isinstance(type, MemRefType) or not _is_movable(type.element_type, width):
        return []
    views = [argument] if type.get_num_dims() == 1 else []
    views += [
        use.operation.results[0] for use in argument.uses if isinstance(use.operation, FlatViewOp)
    ]
    rows: dict[tuple[object, ...], dict[int, memref.LoadOp | memref.StoreOp]] = {}
    for view in views:
        for use in view.uses:
            op = use.operation
            if isinstance(op, FlatViewOp):
                continue
            if not isinstance(op, memref.LoadOp | memref.StoreOp) or op.memref is not view:
                return []
            base, number = builder.split(op.indices[0])
            if gcd(builder.multiple(base), width) != width:
                return []
            row = rows.setdefault((op.parent_block(), op.name, base, number // width), {})
            if number < 0 or number % width in row:
                return []
            row[number % width] = op
    if any(len(row) != width for row in rows.values()):
        return []
    return [[row[i] for i in range(width)] for row in rows.values()]


def _change(builder: HoistingEmitter, argument: SSAValue, rows: list[Row], width: int) -> None:
    assert isinstance(argument.type, MemRefType)
    element = argument.type.element_type
    view = FlatViewOp(argument, vector_type(element, width))
    view.result.name_hint = f"{argument.name_hint or 'buffer'}_vectors"
    block = argument.owner
    assert isinstance(block, Block)
    block.insert_op_before(view, block.first_op)  # pyright: ignore[reportArgumentType]
    for row in rows:
        if isinstance(row[0], memref.LoadOp):
            _load(builder, row, view.result, element)
        else:
            _store(builder, row, view.result, element)


def _in_order(row: Row) -> Row:
    block = row[0].parent_block()
    assert block is not None
    order = {op: position for position, op in enumerate(block.ops)}
    return sorted(row, key=lambda op: order[op])


def _load(builder: HoistingEmitter, row: Row, view: SSAValue, element: Attribute) -> None:
    """Replaces a row of loads by a vector load at the first one, which dominates all users."""
    first, width = _in_order(row)[0], len(row)
    block = first.parent_block()
    assert block is not None
    base, number = builder.split(first.indices[0])
    ops, place = _vector_number(builder, base, number // width, width)
    load = memref.LoadOp.get(view, [place])
    taken, values = _components(load.res, element)
    block.insert_ops_before([*ops, load, *taken], first)
    for op, value in zip(row, values, strict=True):
        op.results[0].replace_all_uses_with(value)
        op.detach()
        op.erase()


def _components(moved: SSAValue, element: Attribute) -> tuple[list[Operation], list[SSAValue]]:
    """Splits a moved value, a vector of elements or of words, into its elements."""
    type = moved.type
    if type == element:
        return [], [moved]
    ops: list[Operation] = []
    if not isinstance(type, VectorType):
        part = spv.BitcastOp(moved, VectorType(element, [bit_width(type) // bit_width(element)]))
        ops, values = _components(part.results[0], element)
        return [part, *ops], values
    values: list[SSAValue] = []
    for place in range(type.get_shape()[0]):
        taken = vector.ExtractOp(moved, [place], type.element_type)
        more, inner = _components(taken.result, element)
        ops += [taken, *more]
        values += inner
    return ops, values


def _join_values(values: list[SSAValue], type: Attribute) -> tuple[list[Operation], SSAValue]:
    """Joins values to one vector of their type, or of words that hold several."""
    if len(values) == 1:
        return [], values[0]
    element = values[0].type
    count = bit_width(type) // bit_width(element)
    if isinstance(type, VectorType) and type.element_type != element:
        ops: list[Operation] = []
        words: list[SSAValue] = []
        step = count // type.get_shape()[0]
        for start in range(0, count, step):
            more, word = _join_values(values[start : start + step], type.element_type)
            ops += more
            words.append(word)
        packed = spv.CompositeConstructOp(words, type)
        return [*ops, packed], packed.result
    packed = spv.CompositeConstructOp(values, VectorType(element, [count]))
    if packed.result.type == type:
        return [packed], packed.result
    word = spv.BitcastOp(packed.result, type)
    return [packed, word], word.results[0]


def _vector_number(
    builder: HoistingEmitter, base: SSAValue, more: int, width: int
) -> tuple[list[Operation], SSAValue]:
    """Computes base / width + more, where `width` divides the base; the sum is not negative."""
    ops: list[Operation] = []
    if more and may_be_negative(base):
        number = arith.ConstantOp(IntegerAttr(more * width, IndexType()))
        total = arith.AddiOp(base, number.result)
        more, base = 0, total.result
        ops += [number, total]
    factor, times = builder.products.get(base, (base, 1))
    if times != width:
        size = arith.ConstantOp(IntegerAttr(width, IndexType()))
        divided = arith.DivUIOp(base, size.result)
        ops += [size, divided]
        factor = divided.result
    if more:
        number = arith.ConstantOp(IntegerAttr(more, IndexType()))
        total = arith.AddiOp(factor, number.result)
        ops += [number, total]
        factor = total.result
    return ops, factor


def _store(builder: HoistingEmitter, row: Row, view: SSAValue, element: Attribute) -> None:
    """Replaces a row of stores by a vector store at the last one, where all values are known."""
    last, width = _in_order(row)[-1], len(row)
    block = last.parent_block()
    assert block is not None
    base, number = builder.split(last.indices[0])
    ops, place = _vector_number(builder, base, number // width, width)
    packing, moved = _join_values([op.operands[0] for op in row], vector_type(element, width))
    block.insert_ops_before([*ops, *packing, memref.StoreOp.get(moved, view, [place])], last)
    for op in row:
        op.detach()
        op.erase()
