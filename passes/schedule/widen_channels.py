"""
Windows of few channels get more of them, where that is estimated to pay.

    image of 3 channels, weights of 3    ->  both of 4, zeros behind: vectors of 4 move
    32 groups of 4 channels by 4 filters ->  8 groups of 16 by 16, zeros between: matrices are full

A cooperative matrix has 16 rows and columns, and memory moves vectors: products with zeros cost
less than rows that stay empty. Weights are computed once; the image is copied, if at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from xdsl_spirv.passes.analysis.contraction import padding_of
from xdsl_spirv.passes.analysis.values import is_weight
from xdsl_spirv.passes.graph.layouts import maps_of, weight_of, with_type
from xdsl_spirv.passes.schedule.tensor_ops import make_generic, merge_dimensions, split_dimension

VECTOR = 4
"""Least channels of an image after widening: 8 bytes of f16 move at once."""

FULL = 64
"""The number of a group's channels that fills a matrix."""


class Code:
    """Operations that are written before another one, and can be taken back."""

    def __init__(self, before: Operation):
        self.before = before
        self.written: list[Operation] = []

    def add(self, *ops: Operation) -> SSAValue:
        block = self.before.parent_block()
        assert block is not None
        block.insert_ops_before(ops, self.before)
        self.written += ops
        return ops[-1].results[0]

    def erase(self) -> None:
        for op in reversed(self.written):
            assert op.parent is not None
            op.parent.erase_op(op)

    def zero(self, element: Attribute) -> SSAValue:
        integer = isinstance(element, IntegerType)
        value = IntegerAttr(0, element) if integer else FloatAttr(0.0, element)  # pyright: ignore
        return self.add(arith.ConstantOp(value))

    def zeros(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        type = TensorType(element, shape)
        number = self.zero(element)
        empty = tensor.EmptyOp((), type)
        return self.add(empty, linalg.ops.FillOp([number], [empty.tensor], [type]))

    def with_zeros_behind(self, value: SSAValue, dimension: int, size: int) -> SSAValue:
        """Copies a tensor with zeros behind a dimension; readers are not fused through the copy."""
        type = cast(TensorType[Attribute], value.type)
        shape = list(type.get_shape())
        wide = [size if at == dimension else n for at, n in enumerate(shape)]
        around = self.zeros(wide, type.element_type)
        rank = len(shape)
        numbers = [0] * rank, shape, [1] * rank
        return self.add(
            tensor.InsertSliceOp.build(
                operands=[value, around, [], [], []],
                properties={
                    f"static_{name}": DenseArrayBase.from_list(i64, given)
                    for name, given in zip(("offsets", "sizes", "strides"), numbers, strict=True)
                },
                result_types=[around.type],
            )
        )

    def split_dimension(self, value: SSAValue, dimension: int, count: int) -> SSAValue:
        """Splits a dimension in two; the second has `count` elements."""
        return self.add(split_dimension(value, dimension, _shape(value)[dimension] // count))

    def together(self, value: SSAValue, dimension: int, type: Attribute) -> SSAValue:
        """Merges a dimension with the next one."""
        rank = len(cast(TensorType[Attribute], value.type).get_shape())
        groups = [[n] for n in range(rank) if n != dimension + 1]
        groups[dimension].append(dimension + 1)
        return self.add(merge_dimensions(value, groups, type))


def _shape(value: SSAValue) -> tuple[int, ...]:
    return cast(TensorType[Attribute], value.type).get_shape()


def _dimension(map: AffineMap, loop: int) -> int | None:
    """The dimension that a loop walks by itself, if it walks no other one."""
    places = [at for at, e in enumerate(map.results) if AffineDimExpr(loop) in e.dfs()]
    plain = len(places) == 1 and isinstance(map.results[places[0]], AffineDimExpr)
    return places[0] if plain else None


def widen_contraction(op: linalg.ops.GenericOp, code: Code) -> linalg.ops.GenericOp | None:
    """Inserts a contraction with more channels before the operation; None if it needs none."""
    weight = weight_of(op)
    operands = [*op.operands]
    if not is_weight(weight) or any(size < 0 for value in operands for size in _shape(value)):
        return None
    at = operands.index(weight)
    places = [[_dimension(map, loop) for map in maps_of(op)] for loop in range(op.get_num_loops())]
    of = [(p[1 - at], p[at], p[2]) for p in places]
    groups = [loop for loop, (x, w, r) in enumerate(of) if None not in (x, w, r)]
    channels = [loop for loop, (x, w, r) in enumerate(of) if None not in (x, w) and r is None]
    if len(channels) != 1 or len(groups) > 1:
        return None
    (channel,) = channels
    count = _shape(weight)[cast(int, of[channel][1])]
    if not groups:
        return _of_vectors(op, code, channel, count) if count % VECTOR and count < FULL else None
    filters = [_shape(weight)[w] for x, w, r in of if x is None and w is not None and r is not None]
    size = _shape(weight)[cast(int, of[groups[0]][1])]
    largest = max(count, *filters, 1)
    fitting = [n for n in range(2, FULL // largest + 1) if size % n == 0]
    if not fitting or count == largest == 1:
        return None
    return _of_groups(op, code, groups[0], fitting[-1])


def _of_vectors(
    op: linalg.ops.GenericOp, code: Code, channel: int, count: int
) -> linalg.ops.GenericOp:
    """Pads the channels of image and weights with zeros at the end."""
    size = -(-count // VECTOR) * VECTOR
    inputs: list[SSAValue] = []
    for value, map in zip(op.inputs, maps_of(op), strict=False):
        place = _dimension(map, channel)
        assert place is not None
        inputs.append(
            _inside_padding(
                value, code, lambda source, place=place: code.with_zeros_behind(source, place, size)
            )
        )
    new = linalg.ops.GenericOp(
        inputs, op.outputs, op.body.clone(), op.indexing_maps, op.iterator_types, op.result_types
    )
    code.add(new)
    return new


def _inside_padding(value: SSAValue, code: Code, change: object) -> SSAValue:
    """Applies a change to a tensor, or to the tensor inside of a constant padding."""
    owner = value.owner
    call = cast("type", change)
    if not isinstance(owner, tensor.PadOp) or padding_of(owner) is None:
        return call(value)
    source = call(owner.source)
    low, high = (list(n.get_values()) for n in (owner.static_low, owner.static_high))
    more = len(_shape(source)) - len(low)
    # Dimensions that were taken apart are not padded: both of the two have no padding.
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
    element = cast(TensorType[Attribute], value.type).element_type
    return code.add(with_type(pad, TensorType(element, shape)))


def _of_groups(
    op: linalg.ops.GenericOp, code: Code, group: int, count: int
) -> linalg.ops.GenericOp | None:
    """Merges `count` groups to one, whose weights are zero between different groups."""
    maps, loops = maps_of(op), op.get_num_loops()
    weight = weight_of(op)
    # The loops of the groups' members: of the result, and summed over.
    made, read = loops, loops + 1
    inputs: list[SSAValue] = []
    new_maps: list[AffineMap] = []
    for value, map in zip(op.operands, maps, strict=True):
        place = _dimension(map, group)
        assert place is not None
        members = [made, read] if value is weight else [made] if value in op.outputs else [read]
        exprs: list[AffineExpr] = list(map.results)
        exprs[place + 1 : place + 1] = [AffineDimExpr(loop) for loop in members]
        new_maps.append(AffineMap(loops + 2, 0, tuple(exprs)))
        if value is weight:
            inputs.append(
                _block_diagonal(code.split_dimension(value, place, count), place + 1, code)
            )
        elif value in op.outputs:
            type = cast(TensorType[Attribute], value.type)
            shape = list(type.get_shape())
            shape[place : place + 1] = [shape[place] // count, count]
            if not isinstance(value.owner, linalg.ops.FillOp):
                return None
            empty = tensor.EmptyOp((), TensorType(type.element_type, shape))
            fill = linalg.ops.FillOp(value.owner.inputs, [empty.tensor], [empty.tensor.type])
            inputs.append(code.add(empty, fill))
        else:
            inputs.append(
                _inside_padding(
                    value,
                    code,
                    lambda source, place=place: code.split_dimension(source, place, count),
                )
            )
    kinds = [*op.get_iterator_types(), IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction()]
    new = make_generic(inputs[:2], inputs[2], new_maps, op.body.clone(), kinds)
    code.add(new)
    place = _dimension(maps[2], group)
    assert place is not None
    code.together(new.results[0], place, op.results[0].type)
    return new


def _block_diagonal(value: SSAValue, place: int, code: Code) -> SSAValue:
    """Doubles a dimension: elements on the diagonal, zeros elsewhere."""
    type = cast(TensorType[Attribute], value.type)
    shape = list(type.get_shape())
    shape.insert(place + 1, shape[place])
    element, rank = type.element_type, len(shape)
    zero = code.zero(element)
    empty = tensor.EmptyOp((), TensorType(element, shape))
    code.add(empty)
    body = Block(arg_types=[element] * 2)
    first, second = linalg.ops.IndexOp(place), linalg.ops.IndexOp(place + 1)
    equal = arith.CmpiOp(first.result, second.result, "eq")
    chosen = arith.SelectOp(equal.result, body.args[0], zero)
    body.add_ops([first, second, equal, chosen, linalg.ops.YieldOp(chosen.result)])
    read = [AffineDimExpr(n) for n in range(rank) if n != place + 1]
    maps = AffineMap(rank, 0, tuple(read)), AffineMap.identity(rank)
    return code.add(make_generic([value], empty.tensor, maps, body))
