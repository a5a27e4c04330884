"""
The sizes of tensors, buffers and numbers of type `index`, in terms of those that they follow from.

What operations compute from other sizes has a size in terms of theirs, so that what is known of
static dimensions (a row of 768 elements moves in vectors) stays known beside dynamic ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from xdsl.dialects import affine, arith, bufferization, linalg, memref, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, MemRefType, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

from xdsl_spirv.dialects.schedule import AttentionMergeOp, AttentionOp, PaddedViewOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Extent,
    Size,
    ceil_div,
    is_dynamic,
    least,
    symbol,
)


def extent(value: SSAValue, dimension: int) -> Size:
    """
    The size of a tensor's or buffer's dimension.

    What is computed from others, operation by operation, has a size in terms of theirs.
    """
    type = value.type
    assert isinstance(type, TensorType | MemRefType)
    size = type.get_shape()[dimension]
    return size if size != DYNAMIC_INDEX else _computed_extent(value, dimension)


def extents(value: SSAValue) -> tuple[Size, ...]:
    """The sizes of all dimensions of a tensor or buffer."""
    type = value.type
    assert isinstance(type, TensorType | MemRefType)
    return tuple(extent(value, dimension) for dimension in range(type.get_num_dims()))


def _computed_extent(value: SSAValue, dimension: int) -> Size:
    if isinstance(value, BlockArgument):
        return symbol(Extent(value, dimension))
    match value.owner:
        case LinalgStructuredOperation() as op:
            return _result_extent(op, value, dimension)
        case PaddedViewOp() as op:
            around = op.low.get_values()[dimension] + op.high.get_values()[dimension]
            return extent(op.memref, dimension) + around
        case tensor.PadOp() as op:
            around = (op.static_low.get_values()[dimension], op.static_high.get_values()[dimension])
            if DYNAMIC_INDEX not in around:
                return extent(op.source, dimension) + sum(around)
        case tensor.EmptyOp() | memref.AllocOp() | tensor.SplatOp() as op:
            type = op.results[0].type
            assert isinstance(type, TensorType | MemRefType)
            before = type.get_shape()[:dimension].count(DYNAMIC_INDEX)
            given = op.operands[1:] if isinstance(op, tensor.SplatOp) else op.operands
            return number(given[before])
        case tensor.CastOp() | memref.CastOp() as op:
            return extent(op.operands[0], dimension)
        case bufferization.ToBufferOp() | bufferization.ToTensorOp() as op:
            return extent(op.operands[0], dimension)
        case tensor.ExtractSliceOp() | memref.SubviewOp() as op:
            static = [int(size) for size in op.static_sizes.get_values()]
            kept = _kept(static, extents_type(value))
            return _listed(static, op.sizes, kept[dimension])
        case tensor.ConcatOp() as op:
            parts = [extent(part, dimension) for part in op.inputs]
            return sum(parts) if dimension == op.dim.value.data else parts[0]
        case tensor.InsertSliceOp() as op:
            return extent(op.dest, dimension)
        case tensor.ExpandShapeOp() | memref.ExpandShapeOp() as op:
            return _listed(op.static_output_shape.get_values(), op.operands[1:], dimension)
        case tensor.CollapseShapeOp() | memref.CollapseShapeOp() as op:
            total = 1
            for axis in op.reassociation.data[dimension].data:
                total *= extent(op.operands[0], axis.value.data)
            return total
        case AttentionOp() | AttentionMergeOp() as op:
            return extent(op.out, dimension)
        case _:
            pass
    return symbol(Extent(value, dimension))


def _kept(sizes: list[int], shape: tuple[Size, ...]) -> list[int]:
    """The dimensions that are left when some of size 1 are dropped to give `shape`."""
    kept: list[int] = []
    for axis, size in enumerate(sizes):
        if len(kept) < len(shape) and size == shape[len(kept)]:
            kept.append(axis)
    return kept


def extents_type(value: SSAValue) -> tuple[Size, ...]:
    """The shape that a value's type states."""
    assert isinstance(value.type, TensorType | MemRefType)
    return value.type.get_shape()


def _listed(static: Iterable[int], dynamic: Iterable[SSAValue], dimension: int) -> Size:
    listed = list(static)
    if listed[dimension] != DYNAMIC_INDEX:
        return listed[dimension]
    return number(list(dynamic)[listed[:dimension].count(DYNAMIC_INDEX)])


def _result_extent(op: LinalgStructuredOperation, value: SSAValue, dimension: int) -> Size:
    """The size of a result: an input's dimension that the same loop walks, or else the output's."""
    index = next(n for n, result in enumerate(op.results) if result is value)
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    walked = maps[len(op.inputs) + index].results[dimension]
    if isinstance(walked, AffineDimExpr) and not isinstance(op, linalg.ops.FillOp):
        for source, map in zip(op.inputs, maps, strict=False):
            for at, expression in enumerate(map.results):
                if expression == walked and isinstance(source.type, TensorType | MemRefType):
                    return extent(source, at)
    return extent(op.outputs[index], dimension)


def loop_extents(op: LinalgStructuredOperation) -> list[Size | None]:
    """The sizes of an operation's loops; None where no operand's dimension is a loop alone."""
    sizes: list[Size | None] = [None] * op.get_num_loops()
    for loop, value, dimension in _loop_dimensions(op):
        known = sizes[loop]
        if known is None or is_dynamic(known):
            size = extent(value, dimension)
            if known is None or not is_dynamic(size):
                sizes[loop] = size
    return sizes


def equal_extents(ops: Iterable[Operation]) -> dict[Extent, Size]:
    """The extents that operations need to be equal to other sizes, in terms of those."""
    known: dict[Extent, Size] = {}

    def in_known(size: Size) -> Size:
        while is_dynamic(size) and any(extent in known for extent in size.extents):
            size = size.replaced(known)
        return size

    for op in ops:
        if not isinstance(op, LinalgStructuredOperation) or isinstance(op, linalg.ops.FillOp):
            continue
        sizes = loop_extents(op)
        for loop, value, dimension in _loop_dimensions(op):
            size = in_known(extent(value, dimension))
            loop_size = sizes[loop]
            first = size if loop_size is None else in_known(loop_size)
            if not is_dynamic(size) or size == first:
                continue
            other, *others = size.extents
            if not others and size == symbol(other):
                if not is_dynamic(first) or other not in first.extents:
                    known[other] = first
    return {extent: in_known(size) for extent, size in known.items()}


def _loop_dimensions(op: LinalgStructuredOperation) -> Iterator[tuple[int, SSAValue, int]]:
    """Each loop that alone indexes a dimension of an operand, with the operand and dimension."""
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    for value, map in zip((*op.inputs, *op.outputs), maps, strict=True):
        if isinstance(value.type, TensorType | MemRefType):
            for dimension, expression in enumerate(map.results):
                if isinstance(expression, AffineDimExpr):
                    yield expression.position, value, dimension


OPERATIONS: dict[type, Callable[[Size, Size], Size]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
}

DIVISIONS: dict[type, Callable[[Size, int], Size]] = {
    arith.DivUIOp: lambda a, b: a // b,
    arith.DivSIOp: lambda a, b: a // b,
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.CeilDivUIOp: ceil_div,
    arith.CeilDivSIOp: ceil_div,
}


def number(value: SSAValue) -> Size:
    """A number of type `index` (or an integer made of one) in terms of sizes."""
    match value.owner:
        case arith.ConstantOp(value=IntegerAttr() as constant):
            return constant.value.data
        case tensor.DimOp() | memref.DimOp() as op:
            at = number(op.index)
            if not is_dynamic(at):
                return extent(op.source, at)
        case arith.IndexCastOp() as op:
            return number(op.input)
        case affine.ApplyOp() as op:
            function = op.map.data
            operands = [number(operand) for operand in op.mapOperands]
            size = _evaluated(function.results[0], operands, function.num_dims)
            if size is not None:
                return size
        case op if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](*map(number, op.operands))  # pyright: ignore
        case arith.MinUIOp() | arith.MinSIOp() as op:
            sizes = sorted(map(number, op.operands), key=is_dynamic)
            if not is_dynamic(sizes[0]):
                return least(sizes[1], sizes[0])
        case op if type(op) in DIVISIONS:
            a, b = map(number, op.operands)  # pyright: ignore
            if isinstance(b, int) and b > 0:
                return DIVISIONS[type(op)](a, b)
        case _:
            pass
    return symbol(Extent(value, 0))


def _evaluated(expression: AffineExpr, operands: list[Size], dims: int) -> Size | None:
    match expression:
        case AffineConstantExpr(value=value):
            return value
        case AffineDimExpr(position=position):
            return operands[position]
        case AffineSymExpr(position=position):
            return operands[dims + position]
        case AffineBinaryOpExpr(kind=kind, lhs=left, rhs=right):
            a, b = _evaluated(left, operands, dims), _evaluated(right, operands, dims)
            if a is None or b is None:
                return None
            match kind:
                case AffineBinaryOpKind.Add:
                    return a + b
                case AffineBinaryOpKind.Mul:
                    return a * b
                case AffineBinaryOpKind.FloorDiv if isinstance(b, int) and b > 0:
                    return a // b
                case AffineBinaryOpKind.CeilDiv if isinstance(b, int) and b > 0:
                    return ceil_div(a, b)
                case _:
                    return None
        case _:
            return None
