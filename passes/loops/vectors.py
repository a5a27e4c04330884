"""
Replaces loads and stores of neighbouring elements by vector loads and stores.

    %0 = memref.load %m[%i]                %v = memref.load %vectors[%i / 4]
    %1 = memref.load %m[%i + 1]     ->     %0 = vector.extract %v[0]
    ...                                    ...

A buffer is viewed either as elements or as vectors. A buffer is viewed as vectors only if all
accesses form complete, aligned vectors. A vector has at most 4 components: 8 halves are loaded as
4 words.
"""

from __future__ import annotations

from functools import reduce
from math import gcd

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import Float16Type, Float32Type, IntegerAttr, IntegerType, MemRefType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule import FlatViewOp, bit_width, memref_of
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter, may_be_negative
from xdsl_spirv.passes.emit.kernel import INDEX, KernelEmitter
from xdsl_spirv.passes.kernel.elements import pack_elements, unpack_elements
from xdsl_spirv.passes.schedule.kinds import MOST_BITS
from xdsl_spirv.passes.schedule.tiles import vector_type

Row = list[memref.LoadOp | memref.StoreOp]


def use_vectors(builder: HoistingEmitter, arguments: tuple[SSAValue, ...], elements: int) -> None:
    """
    Vectorizes the accesses of each argument by the widest possible vectors.

    A vector has at most `elements` elements and 16 bytes.
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
    """
    Groups all accesses of a buffer into vectors of neighbours; [] if an access fits no vector.
    """
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
    element = memref_of(argument).element_type
    view = FlatViewOp(argument, vector_type(element, width))
    view.result.name_hint = f"{argument.name_hint or 'buffer'}_vectors"
    block = argument.owner
    assert isinstance(block, Block)
    block.insert_op_before(view, block.first_op)  # pyright: ignore[reportArgumentType]
    for row in rows:
        # The first load dominates all users. At the last store, all values are defined.
        loads = isinstance(row[0], memref.LoadOp)
        op = reduce(lambda a, b: a if a.is_before_in_block(b) == loads else b, row)
        b = KernelEmitter(InsertPoint.before(op))
        place = _vector_number(builder, b, op, width)
        if loads:
            values = unpack_elements(b, b.load(view.result, [place]), element, width)
            for load, value in zip(row, values, strict=True):
                load.results[0].replace_all_uses_with(value)
        else:
            b.store(pack_elements(b, [op.operands[0] for op in row], element), view.result, [place])
        for op in row:
            Rewriter.erase_op(op)


def _vector_number(
    builder: HoistingEmitter, b: KernelEmitter, op: memref.LoadOp | memref.StoreOp, width: int
) -> SSAValue:
    """Emits the index of the vector that contains an access."""
    base, added = builder.split(op.indices[0])
    more = added // width

    def number(value: int) -> SSAValue:
        return b.add(arith.ConstantOp(IntegerAttr(value, INDEX)))

    if more and may_be_negative(base):
        base, more = b.add(arith.AddiOp(base, number(more * width))), 0
    factor, times = builder.products.get(base, (base, 1))
    if times != width:
        factor = b.add(arith.DivUIOp(base, number(width)))
    return b.add(arith.AddiOp(factor, number(more))) if more else factor
