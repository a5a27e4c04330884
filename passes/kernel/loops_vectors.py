"""
Loads and stores of neighbouring elements become those of vectors.

    %0 = memref.load %m[%i]                %v = memref.load %vectors[%i / 4]
    %1 = memref.load %m[%i + 1]     ->     %0 = vector.extract %v[0]
    ...                                    ...

A buffer is seen as elements or as vectors, not as both: it changes only if every access of it is
one of a complete row of neighbours whose first is a multiple of the vector's length.
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

from xdsl_spirv.dialects.schedule import FlatViewOp, bit_width
from xdsl_spirv.dialects.spirv.composite import CompositeConstructOp
from xdsl_spirv.passes.kernel.loops_builder import LoopsBuilder

Row = list[memref.LoadOp | memref.StoreOp]

MOST_BITS = 128
"""What an invocation moves at a time."""


def use_vectors(builder: LoopsBuilder, arguments: tuple[SSAValue, ...], width: int) -> None:
    """Move `width` neighbours of the arguments' elements at a time wherever all accesses allow."""
    if width not in (2, 4):
        return
    for argument in arguments:
        rows = _rows(builder, argument, width)
        if rows:
            type = argument.type
            assert isinstance(type, MemRefType)
            _change(builder, argument, rows, VectorType(type.element_type, [width]))


def _is_movable(element: Attribute, width: int) -> bool:
    if not isinstance(element, Float16Type | Float32Type | IntegerType):
        return False
    bits = bit_width(element)
    return bits >= 8 and bits * width <= MOST_BITS


def _rows(builder: LoopsBuilder, argument: SSAValue, width: int) -> list[Row]:
    """All accesses of a buffer as rows of neighbours, none if they are anything else."""
    type = argument.type
    if not isinstance(type, MemRefType) or not _is_movable(type.element_type, width):
        return []
    views = [argument] if type.get_num_dims() == 1 else []
    views += [
        use.operation.results[0] for use in argument.uses if isinstance(use.operation, FlatViewOp)
    ]
    found: dict[tuple[object, ...], dict[int, memref.LoadOp | memref.StoreOp]] = {}
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
            row = found.setdefault((op.parent_block(), op.name, base, number // width), {})
            if number < 0 or number % width in row:
                return []
            row[number % width] = op
    if any(len(row) != width for row in found.values()):
        return []
    return [[row[i] for i in range(width)] for row in found.values()]


def _change(
    builder: LoopsBuilder, argument: SSAValue, rows: list[Row], vector_type: VectorType
) -> None:
    view = FlatViewOp(argument, vector_type)
    view.result.name_hint = f"{argument.name_hint or 'buffer'}_vectors"
    block = argument.owner
    assert isinstance(block, Block)
    block.insert_op_before(view, block.first_op)  # pyright: ignore[reportArgumentType]
    for row in rows:
        if isinstance(row[0], memref.LoadOp):
            _load(builder, row, view.result, vector_type)
        else:
            _store(builder, row, view.result, vector_type)


def _in_order(row: Row) -> Row:
    block = row[0].parent_block()
    assert block is not None
    order = {op: position for position, op in enumerate(block.ops)}
    return sorted(row, key=lambda op: order[op])


def _load(builder: LoopsBuilder, row: Row, view: SSAValue, type: VectorType) -> None:
    """One load where the first one stands: it dominates what the others gave."""
    first, width = _in_order(row)[0], len(row)
    block = first.parent_block()
    assert block is not None
    base, number = builder.split(first.indices[0])
    ops, place = _vector_number(builder, base, number // width, width)
    load = memref.LoadOp.get(view, [place])
    extracts = [vector.ExtractOp(load.res, [i], type.element_type) for i in range(width)]
    block.insert_ops_before([*ops, load, *extracts], first)
    for op, extract in zip(row, extracts, strict=True):
        op.results[0].replace_all_uses_with(extract.result)
        op.detach()
        op.erase()


def _vector_number(
    builder: LoopsBuilder, base: SSAValue, more: int, width: int
) -> tuple[list[Operation], SSAValue]:
    """base / width + more, where the width divides the base."""
    ops: list[Operation] = []
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


def _store(builder: LoopsBuilder, row: Row, view: SSAValue, type: VectorType) -> None:
    """One store where the last one stands, which sees all values."""
    last, width = _in_order(row)[-1], len(row)
    block = last.parent_block()
    assert block is not None
    base, number = builder.split(last.indices[0])
    ops, place = _vector_number(builder, base, number // width, width)
    values = [op.operands[0] for op in row]
    packed = CompositeConstructOp(values, type)
    block.insert_ops_before([*ops, packed, memref.StoreOp.get(packed.result, view, [place])], last)
    for op in row:
        op.detach()
        op.erase()
