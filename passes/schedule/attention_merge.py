"""Merges the parts of an attention by ordinary operations, in one dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from xdsl.builder import Builder
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, FloatAttr, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic, static
from xdsl_spirv.passes.analysis.linalg_code import Code, merge_dimensions, tensor_type
from xdsl_spirv.passes.analysis.sizes import SizeCode, extents


def merge_parts(
    code: Code, parts: SSAValue, place: AffineMap, type: TensorType, nan_to_zero: bool
) -> SSAValue:
    """
    Builds the result of an attention, given `parts`, the result of a `schedule.attention` with
    parts.

        f[s, b, m] = exp(top[s, b, m] - the greatest top over s)
        total[b, m, e] = sum over s of f[s, b, m] * parts[s, b, m, e]
        result[b, m, e] = total[b, m, e] / total[b, m, column of the sums]

    `place` maps the loops b, m and e to the result's dimensions.
    """
    _, *rows, columns = extents(parts)
    element = type.element_type
    width, count = static([columns])[0] - 2, len(rows)
    *row, part, column = map(AffineDimExpr, range(count + 2))
    sums, tops = map(AffineConstantExpr, (width, width + 1))

    def at(*places: AffineExpr, loops: int = count + 2) -> AffineMap:
        return AffineMap(loops, 0, places)

    greatest = code.generic(
        [parts],
        code.fill(rows, f32, -inf),
        [at(part, *row, tops, loops=count + 1), at(*row, loops=count + 1)],
        lambda b, v: b.insert(arith.MaximumfOp(v[1], v[0])),
    )

    def add_weighted(b: Builder, v: Sequence[SSAValue]) -> Operation:
        top, most, value, total = v
        factor = b.insert(math.ExpOp(b.insert(arith.SubfOp(top, most)).result))
        added = b.insert(arith.MulfOp(factor.result, value)).result
        return b.insert(arith.AddfOp(total, added))

    total = code.generic(
        [parts, greatest, parts],
        code.fill([*rows, columns], f32, 0.0),
        [at(part, *row, tops), at(*row), at(part, *row, column), at(*row, column)],
        add_weighted,
    )

    def divide(b: Builder, v: Sequence[SSAValue]) -> SSAValue:
        result = b.insert(arith.DivfOp(v[0], v[1])).result
        if nan_to_zero:
            zero = b.insert(arith.ConstantOp(FloatAttr(0.0, f32))).result
            positive = b.insert(arith.CmpfOp(v[1], zero, "ogt")).result
            result = b.insert(arith.SelectOp(positive, result, zero)).result
        return result if element == f32 else b.insert(arith.TruncFOp(result, element)).result

    sizes, groups = _split(place, [*rows, width])
    order = [loop for group in groups for loop in group]
    result = code.generic(
        [_first_columns(code, total, width), total],
        code.empty([sizes[loop] for loop in order], element),
        [
            at(*row, part, loops=len(sizes)),
            at(*row, sums, loops=len(sizes)),
            at(*map(AffineDimExpr, order), loops=len(sizes)),
        ],
        divide,
    )
    if len(order) > len(groups):
        shape = iter(tensor_type(result).get_shape())
        merged = [[next(shape) for _ in group] for group in groups]
        known = [DYNAMIC_INDEX if DYNAMIC_INDEX in own else prod(own) for own in merged]
        dimensions = iter(range(len(order)))
        result = code.insert(
            merge_dimensions(result, [[next(dimensions) for _ in own] for own in groups], known)
        )
    return code.cast(result, type)


def _split(place: AffineMap, sizes: list[Size]) -> tuple[list[Size], list[list[int]]]:
    """
    Returns the loops that index each dimension of the result, and the sizes of all loops.

    Each loop indexes one dimension. Loops of size 1 index the dimensions that are read at 0.
    """
    count, groups = len(sizes), list[list[int]]()
    strides = [place.eval([int(at == loop) for at in range(count)], []) for loop in range(count)]
    left = [loop for loop in range(count) if loop not in place.used_dims()]
    for dimension, index in enumerate(place.results):
        loops = sorted(index.used_dims(), key=lambda loop: -strides[loop][dimension])
        if not loops and not left:
            left, sizes = [len(sizes)], [*sizes, 1]
        groups.append(loops or [left.pop()])
    groups[0] += left
    return sizes, groups


def _first_columns(code: Code, value: SSAValue, count: int) -> SSAValue:
    write = SizeCode(code.insert)
    given = (*extents(value)[:-1], count)
    sizes = [write.value(size) if is_dynamic(size) else size for size in given]
    starts, steps = ([number] * len(sizes) for number in (0, 1))
    type = tensor.ExtractSliceOp.infer_result_type(tensor_type(value), sizes)
    return code.insert(tensor.ExtractSliceOp(value, starts, sizes, steps, type))
