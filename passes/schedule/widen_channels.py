"""
Adds zero channels to convolutions of few channels, or merges their groups, if that is faster.

    image of 3 channels, weights of 3    ->  both of 4, the last one 0: accessed by vectors of 4
    32 groups of 4 channels by 4 filters ->  8 groups of 16 by 16, with zeros between channels

A cooperative matrix has 16 rows and columns, and memory is accessed by vectors: products with
zeros cost less than unused rows. Weights are computed once; the image is copied if necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from xdsl_spirv.passes.analysis.contraction import padding_of
from xdsl_spirv.passes.analysis.linalg_code import (
    Code,
    dimension_of,
    make_generic,
    maps_of,
    merge_dimensions,
    split_dimension,
    tensor_type,
)
from xdsl_spirv.passes.analysis.values import is_weight
from xdsl_spirv.passes.graph.layouts import weight_of, with_type

VECTOR = 4
"""Least number of an image's channels after widening: 8 bytes of f16 form one access."""


def _shape(value: SSAValue) -> tuple[int, ...]:
    return tensor_type(value).get_shape()


def widen_contraction(
    op: linalg.ops.GenericOp, code: Code, full: int
) -> linalg.ops.GenericOp | None:
    """
    Inserts a widened contraction before the operation; returns None if widening is useless.

    A group of `full` channels fills a matrix.
    """
    weight = weight_of(op)
    operands = [*op.operands]
    if not is_weight(weight) or any(size < 0 for value in operands for size in _shape(value)):
        return None
    at = operands.index(weight)
    places = [
        [dimension_of(map, loop) for map in maps_of(op)] for loop in range(op.get_num_loops())
    ]
    of = [(p[1 - at], p[at], p[2]) for p in places]
    groups = [loop for loop, (x, w, r) in enumerate(of) if None not in (x, w, r)]
    channels = [loop for loop, (x, w, r) in enumerate(of) if None not in (x, w) and r is None]
    if len(channels) != 1 or len(groups) > 1:
        return None
    (channel,) = channels
    count = _shape(weight)[cast(int, of[channel][1])]
    if not groups:
        return _of_vectors(op, code, channel, count) if count % VECTOR and count < full else None
    filters = [_shape(weight)[w] for x, w, r in of if x is None and w is not None and r is not None]
    size = _shape(weight)[cast(int, of[groups[0]][1])]
    largest = max(count, *filters, 1)
    fitting = [n for n in range(2, full // largest + 1) if size % n == 0]
    if not fitting or count == largest == 1:
        return None
    return _of_groups(op, code, groups[0], fitting[-1])


def _of_vectors(
    op: linalg.ops.GenericOp, code: Code, channel: int, count: int
) -> linalg.ops.GenericOp:
    size = -(-count // VECTOR) * VECTOR

    def append_zeros(value: SSAValue, place: int) -> SSAValue:
        """Appends zeros to a dimension by a separate copy, which is not fused with its readers."""
        shape = _shape(value)
        wide = [*shape[:place], size, *shape[place + 1 :]]
        around = code.fill(wide, tensor_type(value).element_type, 0)
        return code.insert(tensor.InsertSliceOp.get(value, around, shape))

    inputs = [
        _inside_padding(value, code, dimension_of(map, channel), append_zeros)
        for value, map in zip(op.inputs, maps_of(op), strict=False)
    ]
    new = make_generic(inputs, op.outputs, maps_of(op), op.body.clone(), op.get_iterator_types())
    code.insert(new)
    return new


def _inside_padding(
    value: SSAValue, code: Code, at: int | None, change: Callable[[SSAValue, int], SSAValue]
) -> SSAValue:
    """Changes dimension `at` of a tensor, or of the tensor inside of a constant padding."""
    owner = value.owner
    assert at is not None
    if not isinstance(owner, tensor.PadOp) or padding_of(owner) is None:
        return change(value, at)
    source = change(owner.source, at)
    low, high = (list(n.get_values()) for n in (owner.static_low, owner.static_high))
    more = len(_shape(source)) - len(low)
    # A dimension that was split has no padding.
    place = next((n for n, s in enumerate(_shape(owner.source)) if s != _shape(source)[n]), 0)
    low[place:place] = [0] * more
    high[place:place] = [0] * more
    shape = [a + n + b for a, n, b in zip(low, _shape(source), high, strict=True)]
    pad = owner.clone()
    pad.operands = [source]
    pad.properties["static_low"] = DenseArrayBase.from_list(i64, low)
    pad.properties["static_high"] = DenseArrayBase.from_list(i64, high)
    for _ in range(more):
        block = pad.region.block
        block.insert_arg(block.args[0].type, 0)
    element = tensor_type(value).element_type
    return code.insert(with_type(pad, TensorType(element, shape)))


def _of_groups(
    op: linalg.ops.GenericOp, code: Code, group: int, count: int
) -> linalg.ops.GenericOp | None:
    """Merges `count` groups to one group, with weights of zero between different groups."""
    maps, loops = maps_of(op), op.get_num_loops()
    weight = weight_of(op)
    # New loops over the merged groups: of the result, and of the sum.
    made, read = loops, loops + 1

    def split(value: SSAValue, place: int) -> SSAValue:
        return code.insert(split_dimension(value, place, _shape(value)[place] // count))

    inputs: list[SSAValue] = []
    new_maps: list[AffineMap] = []
    for value, map in zip(op.operands, maps, strict=True):
        place = dimension_of(map, group)
        assert place is not None
        members = [made, read] if value is weight else [made] if value in op.outputs else [read]
        exprs: list[AffineExpr] = list(map.results)
        exprs[place + 1 : place + 1] = [AffineDimExpr(loop) for loop in members]
        new_maps.append(AffineMap(loops + 2, 0, tuple(exprs)))
        if value is weight:
            inputs.append(_block_diagonal(split(value, place), place + 1, code))
        elif value in op.outputs:
            if not isinstance(value.owner, linalg.ops.FillOp):
                return None
            shape = list(_shape(value))
            shape[place : place + 1] = [shape[place] // count, count]
            empty = code.empty(shape, tensor_type(value).element_type)
            inputs.append(code.fill_with(value.owner.inputs[0], empty))
        else:
            inputs.append(_inside_padding(value, code, place, split))
    kinds = [*op.get_iterator_types(), IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction()]
    new = make_generic(inputs[:2], inputs[2], new_maps, op.body.clone(), kinds)
    code.insert(new)
    place = dimension_of(maps[2], group)
    assert place is not None
    # The merged groups become one dimension again.
    groups = [[n] for n in range(len(_shape(new.results[0]))) if n != place + 1]
    groups[place].append(place + 1)
    code.insert(merge_dimensions(new.results[0], groups, _shape(op.results[0])))
    return new


def _block_diagonal(value: SSAValue, place: int, code: Code) -> SSAValue:
    """Adds a second dimension of equal size after a dimension; elements off the diagonal are 0."""
    shape, element = list(_shape(value)), tensor_type(value).element_type
    shape.insert(place + 1, shape[place])
    rank, zero = len(shape), code.constant(0, element)

    def choose(b: Builder, v: Sequence[SSAValue]) -> Operation:
        first, second = (b.insert(linalg.ops.IndexOp(place + n)) for n in (0, 1))
        equal = b.insert(arith.CmpiOp(first.result, second.result, "eq"))
        return b.insert(arith.SelectOp(equal.result, v[0], zero))

    read = [AffineDimExpr(n) for n in range(rank) if n != place + 1]
    maps = [AffineMap(rank, 0, tuple(read)), AffineMap.identity(rank)]
    return code.generic([value], code.empty(shape, element), maps, choose)
