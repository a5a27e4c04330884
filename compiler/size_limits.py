"""
Derives limits of dynamic sizes, so that operations do not access elements outside of tensors.

    tensor.insert_slice %new into %cache[0, %past] [8, %n]     past + n <= 2048
    linalg.conv_1d ins(%x, %window) outs(%y)                   y + window - 1 <= x

Conditions that hold for all sizes are left out. The others are checked before a program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects import arith, cf, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineDimExpr, AffineExpr

from xdsl_spirv.dialects.places import place
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Extent,
    Size,
    format_size,
    is_dynamic,
    surely_below,
)
from xdsl_spirv.passes.analysis.sizes import extent, is_size_check, listed_sizes, number
from xdsl_spirv.runtime.expressions import Number
from xdsl_spirv.runtime.manifest import Limit

AtMost = tuple[Size, Size, Operation]
"""(size, upper limit, the operation that requires it)."""


def limits_of(function: FuncOp, name: Callable[[Extent], Number]) -> list[Limit]:
    """Returns the limits of a function's dynamic sizes, with the names of sizes."""
    limits: dict[tuple[Number, Number], Limit] = {}
    for size, most, op in _needed_limits(function):
        given = [extent.value for s in (size, most) if is_dynamic(s) for extent in s.extents]
        if not all(isinstance(value, BlockArgument) for value in given):
            # read_host refuses a program whose sizes depend on results of kernels.
            continue
        if not surely_below(size, most + 1):
            pair = format_size(size, name), format_size(most, name)
            limits.setdefault(pair, Limit(*pair, because=place(op)))
    return list(limits.values())


def _needed_limits(function: FuncOp) -> Iterator[AtMost]:
    for op in function.body.block.ops:
        match op:
            case tensor.ExtractSliceOp():
                yield from _of_slice(op, op.source)
            case tensor.InsertSliceOp():
                yield from _of_slice(op, op.dest)
            case tensor.PadOp():
                around = ((op.static_low, op.low), (op.static_high, op.high))
                yield from ((0, size, op) for side in around for size in listed_sizes(*side))
            case tensor.EmptyOp():
                yield from ((0, number(size), op) for size in op.dynamic_sizes)
            case cf.AssertOp() if is_size_check(op) and isinstance(op.arg.owner, arith.CmpiOp):
                yield from _of_comparison(op.arg.owner, op)
            case LinalgStructuredOperation():
                yield from _of_windows(op)
            case _:
                pass


def _of_windows(op: LinalgStructuredOperation) -> Iterator[AtMost]:
    """
    Yields limits for an operation that reads windows: the largest index must be inside the tensor.
    """
    reads = [
        (expression, extent(value, axis))
        for value, map in zip((*op.inputs, *op.outputs), op.get_indexing_maps(), strict=True)
        if isinstance(value.type, TensorType)
        for axis, expression in enumerate(map.data.results)
    ]
    sizes = {e.position: size for e, size in reads if isinstance(e, AffineDimExpr)}
    for expression, size in reads:
        used = sorted(expression.used_dims())
        if isinstance(expression, AffineDimExpr) or any(loop not in sizes for loop in used):
            continue
        count = max(used, default=-1) + 1
        steps = [expression.eval([int(n == loop) for n in range(count)], []) for loop in used]
        first = expression.eval([0] * count, [])
        if _is_linear(expression) and min(steps, default=first) >= first >= 0:
            walks = ((step - first) * (sizes[loop] - 1) for loop, step in zip(used, steps))
            yield sum(walks, first + 1), size, op


def _is_linear(expression: AffineExpr) -> bool:
    kinds = (AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul)
    return all(e.kind in kinds for e in expression.dfs() if isinstance(e, AffineBinaryOpExpr))


def _of_slice(
    op: tensor.ExtractSliceOp | tensor.InsertSliceOp, whole: SSAValue
) -> Iterator[AtMost]:
    """
    Yields limits for a slice of a tensor: the slice's start and end must be inside the tensor.
    """
    offsets = listed_sizes(op.static_offsets, op.offsets)
    sizes = listed_sizes(op.static_sizes, op.sizes)
    strides = op.static_strides.get_values()
    for axis, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
        yield 0, offset, op
        yield 0, size, op
        yield offset + size * stride - (stride - 1), extent(whole, axis), op


def _of_comparison(op: arith.CmpiOp, insisted: cf.AssertOp) -> Iterator[AtMost]:
    """
    Yields the limit that a comparison implies, which the operation `insisted` asserts. Signedness
    is ignored, because sizes are not negative.
    """
    left, right = number(op.lhs), number(op.rhs)
    match op.predicate.value.data:
        case 2 | 6:
            yield left + 1, right, insisted
        case 3 | 7:
            yield left, right, insisted
        case 4 | 8:
            yield right + 1, left, insisted
        case 5 | 9:
            yield right, left, insisted
        case _:
            pass
