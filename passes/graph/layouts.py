"""
Chooses dimension orders for storing tensors, and rewrites operations to read and write them.

An order lists the dimensions of a tensor as they are stored, slowest first: (0, 2, 3, 1) stores N
x C x H x W as N x H x W x C. Elementwise operations, windows, pads, slices, concatenations and
reshapes give their result in the order of their operands, so an order spreads from tensor to
tensor (`spread_order`). A `linalg.generic` reads any order through its index maps.

    %1 = tensor.pad %0 : NxCxHxW          %t = transpose %0 : NxHxWxC
    %2 = contraction %1, %w : NxOxHxW     %1 = tensor.pad %t : NxHxWxC
    func.return %2                    ->  %2 = contraction %1, %w' : NxHxWxO
                                          %3 = transpose %2 : NxOxHxW
                                          func.return %3
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar, cast

from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IntegerAttr, TensorType, i32, i64
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule import SCHEDULE, consecutive
from xdsl_spirv.passes.analysis.contraction import as_contraction, rewrite_canonically
from xdsl_spirv.passes.analysis.layout import NotLinear, linear
from xdsl_spirv.passes.analysis.linalg_code import (
    Code,
    groups_of,
    make_generic,
    maps_of,
    merged_groups,
    reassociation_of,
    tensor_type,
)
from xdsl_spirv.passes.analysis.pointwise import is_pointwise, moves_only
from xdsl_spirv.passes.analysis.sizes import extents, number
from xdsl_spirv.passes.analysis.values import MAKERS, erase_unused_ops

Order: TypeAlias = tuple[int, ...]

Orders: TypeAlias = Mapping[SSAValue, Order]

Item = TypeVar("Item")

MOVES = (tensor.PadOp, tensor.ExtractSliceOp, tensor.InsertSliceOp, tensor.ConcatOp)
"""Operations whose tensors all have the same dimensions."""

LISTS = (
    ("static_low", "low"),
    ("static_high", "high"),
    ("static_offsets", "offsets"),
    ("static_sizes", "sizes"),
    ("static_strides", "strides"),
    ("static_output_shape", "dynamic_output_shape"),
)
"""
Attributes that are lists with one number for each dimension: (attribute with the static numbers,
operand with the dynamic numbers).
"""


def permute(items: Sequence[Item], order: Order) -> list[Item]:
    """Permutes a list with one item for each dimension into storage order."""
    return [items[dimension] for dimension in order]


def inverse(order: Order) -> Order:
    """Returns the inverse permutation of an order."""
    return tuple(order.index(dimension) for dimension in range(len(order)))


def is_identity(order: Order) -> bool:
    return order == tuple(range(len(order)))


def _rank(value: SSAValue) -> int:
    return len(value.type.get_shape()) if isinstance(value.type, TensorType) else -1


def is_remade(value: SSAValue) -> bool:
    """
    True if a tensor can be created in any order, because its elements are all equal or undefined.
    """
    return isinstance(value.owner, MAKERS)


# Orders that spread from tensor to tensor


def spread_order(op: Operation, value: SSAValue, order: Order) -> Iterator[tuple[SSAValue, Order]]:
    """
    Yields the operation's other tensors, each with the order that corresponds to `order` of
    `value`.
    """
    if SCHEDULE in op.attributes:
        return
    match op:
        case linalg.ops.GenericOp():
            yield from _related_by_loops(op, value, order)
        case _ if isinstance(op, MOVES):
            for other in (*op.operands, *op.results):
                if other is not value and _rank(other) == len(order) and _moves_all(op):
                    yield other, order
        case tensor.ExpandShapeOp() if value is op.src:
            groups = groups_of(op)
            yield op.result, tuple(axis for group in order for axis in groups[group])
        case tensor.ExpandShapeOp():
            yield from ((op.src, o) for o in _merge_order(order, groups_of(op)))
        case tensor.CollapseShapeOp() if value is op.src:
            yield from ((op.result, o) for o in _merge_order(order, groups_of(op)))
        case tensor.CollapseShapeOp():
            groups = groups_of(op)
            yield op.src, tuple(axis for group in order for axis in groups[group])
        case _:
            pass


def _moves_all(op: Operation) -> bool:
    """True if all tensors have the same rank, and a padding's body does not read indices."""
    ranks = {_rank(v) for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)}
    asks = any(a.first_use for region in op.regions for block in region.blocks for a in block.args)
    return len(ranks) == 1 and not asks


def _merge_order(order: Order, groups: Sequence[Sequence[int]]) -> Iterator[Order]:
    """Yields the order of the merged dimensions, if `order` stores each group contiguously."""
    merged = merged_groups(order, groups)
    if merged is not None and len(merged) == len(groups):
        yield tuple(merged)


def main_loops(op: LinalgStructuredOperation) -> list[list[int | None]]:
    """
    Returns the loop that indexes each dimension of each operand; for a window, the sliding loop.
    """
    parallel = {
        loop
        for loop, kind in enumerate(op.get_iterator_types())
        if kind == IteratorTypeAttr.parallel()
    }
    return [[_main(e, map.num_dims, parallel) for e in map.results] for map in maps_of(op)]


def _main(expression: AffineExpr, loops: int, parallel: set[int]) -> int | None:
    if isinstance(expression, AffineDimExpr):
        return expression.position
    try:
        factors = linear(expression, loops).factors
    except NotLinear:
        return None
    return next((loop for loop, factor in enumerate(factors) if factor and loop in parallel), None)


def _related_by_loops(
    op: linalg.ops.GenericOp, value: SSAValue, order: Order
) -> Iterator[tuple[SSAValue, Order]]:
    values = (*op.inputs, *op.outputs)
    walked = main_loops(op)
    if any(not is_plain_write(map) for map in maps_of(op)[len(op.inputs) :]):
        return
    at = len(op.inputs) + op.results.index(value) if value in op.results else values.index(value)
    own = walked[at]
    loops = [own[dimension] for dimension in order]
    if None in loops or len(set(loops)) != len(loops):
        return
    others = [*zip(values, walked, strict=True), *zip(op.results, walked[len(op.inputs) :])]
    for other, by in others:
        if other is not value and len(by) == len(loops) and set(by) == set(loops):
            yield other, tuple(sorted(range(len(by)), key=lambda d: loops.index(by[d])))


def is_plain_write(map: AffineMap) -> bool:
    """True if a different loop indexes each dimension of a result."""
    positions = [e.position for e in map.results if isinstance(e, AffineDimExpr)]
    return len(set(positions)) == len(map.results)


# Rewriting


class Rearrangement:
    """
    Rewrites the operations of a block so that each tensor in `orders` is stored in that order.
    """

    def __init__(self, block: Block, orders: Orders, weights: Mapping[Operation, Order]):
        self.block, self.orders, self.weights = block, orders, weights
        self.stored: dict[tuple[SSAValue, Order], SSAValue] = {}
        """Maps (tensor in the model's order, order) to the tensor stored in that order."""
        self.replaced: dict[SSAValue, SSAValue] = {}
        """Maps a result to the reordered tensor that replaces it."""

    def apply(self) -> None:
        """Rewrites all operations of the block."""
        for op in list(self.block.ops):
            if op.parent_block() is self.block and not isinstance(op, MAKERS):
                self._visit(op)

    def _visit(self, op: Operation) -> None:
        results = [self.orders.get(result) for result in op.results]
        given = [v for v in op.operands if v in self.replaced]
        if isinstance(op, tensor.DimOp) and given:
            self._dim(op)
        elif isinstance(op, linalg.ops.GenericOp) and SCHEDULE not in op.attributes:
            reads = any(v in self.orders for v in op.inputs)
            if reads or op in self.weights or any(results):
                self._generic(op)
        elif len(results) == 1 and results[0] is not None and self._carries(op, results[0]):
            self._move_result(op, results[0])
        else:
            self._give_back(op)

    def _carries(self, op: Operation, order: Order) -> bool:
        moves = isinstance(op, MOVES) and _moves_all(op)
        (result,) = op.results
        return moves or any(True for _ in spread_order(op, result, order))

    def _give_back(self, op: Operation) -> None:
        """Replaces reordered operands of an operation by tensors in the model's order."""
        for inner in op.walk():
            for at, value in enumerate(inner.operands):
                if value in self.replaced:
                    inner.operands[at] = self._plain(value, op)

    def _plain(self, value: SSAValue, before: Operation) -> SSAValue:
        return self.value(value, tuple(range(_rank(value))), before)

    def value(self, value: SSAValue, order: Order, before: Operation) -> SSAValue:
        """
        Returns a tensor in the given order. The first call for an order inserts a transposition.
        """
        if is_identity(order) and value not in self.replaced:
            return value
        known = self.stored.get((value, order))
        if known is not None:
            return known
        if is_remade(value):
            return self._remade(value, order, before)
        source, has = value, tuple(range(len(order)))
        if value in self.replaced:
            source, has = self.replaced[value], self.orders[value]
        # The transposition follows the producer directly, because other operations read it, too.
        dimensions = [has.index(dimension) for dimension in order]
        self.stored[value, order] = Code.open_behind(source, before).transpose(source, dimensions)
        return self.stored[value, order]

    def _remade(self, value: SSAValue, order: Order, before: Operation) -> SSAValue:
        code, owner = Code(before), value.owner
        empty = code.empty(permute(extents(value), order), tensor_type(value).element_type)
        is_filled = isinstance(owner, linalg.ops.FillOp)
        return code.fill_with(owner.inputs[0], empty) if is_filled else empty

    def _dim(self, op: tensor.DimOp) -> None:
        at = number(op.index)
        if isinstance(at, int):
            from xdsl.dialects import arith

            place = self.orders[op.source].index(at)
            index = arith.ConstantOp(IntegerAttr.from_index_int_value(place))
            Rewriter.insert_op(index, InsertPoint.before(op))
            op.operands[0], op.operands[1] = self.replaced[op.source], index.result
        else:
            self._give_back(op)

    def _generic(self, op: linalg.ops.GenericOp) -> None:
        maps = maps_of(op)
        written = [self.orders.get(result, tuple(range(_rank(result)))) for result in op.results]
        outputs = [self.value(v, o, op) for v, o in zip(op.outputs, written, strict=True)]
        inputs: list[SSAValue] = []
        for at, value in enumerate(op.inputs):
            order = self._read(op, value)
            inputs.append(self.value(value, order, op) if order else value)
            if order:
                maps[at] = _stored_map(maps[at], order)
        for at, order in enumerate(written, start=len(inputs)):
            maps[at] = _stored_map(maps[at], order)
        new = _generic(op, inputs, outputs, maps)
        if is_pointwise(new) and moves_only(new) and len(set(maps_of(new))) == 1:
            # The reordered operand equals the result of a transposition into this order.
            self._replace(op, [inputs[0]])
            return
        Rewriter.insert_op(new, InsertPoint.before(op))
        contraction = as_contraction(new)
        self._replace(op, (rewrite_canonically(contraction) if contraction else new).results)

    def _read(self, op: linalg.ops.GenericOp, value: SSAValue) -> Order | None:
        """Returns the order in which an operation reads an operand; None for the model's order."""
        if op in self.weights and value is weight_of(op):
            return self.weights[op]
        return self.orders.get(value)

    def _move_result(self, op: Operation, order: Order) -> None:
        (result,) = op.results
        sources = {result: order, **dict(spread_order(op, result, order))}
        operands = [
            self.value(value, sources[value], op) if value in sources else value
            for value in op.operands
        ]
        type = tensor_type(result)
        stored = TensorType(type.element_type, permute(type.get_shape(), order))
        reshapes = isinstance(op, tensor.ExpandShapeOp | tensor.CollapseShapeOp)
        change = _reorder_reshape if reshapes else permuted_lists
        clone = with_type(change(op, operands, order, sources), stored)
        Rewriter.insert_op(clone, InsertPoint.before(op))
        self._replace(op, clone.results)

    def _replace(self, op: Operation, results: Sequence[SSAValue]) -> None:
        for old, new in zip(op.results, results, strict=True):
            order = self.orders.get(old)
            if order is None:
                old.replace_all_uses_with(new)
            else:
                self.replaced[old] = new
                self.stored[old, order] = new


def erase_replaced(block: Block) -> None:
    """Erases replaced operations whose results have no uses."""
    reshapes = tensor.ExpandShapeOp, tensor.CollapseShapeOp, tensor.EmptyOp
    kinds = (LinalgStructuredOperation, *MOVES, *reshapes)
    erase_unused_ops(block, lambda op: isinstance(op, kinds))


def weight_of(op: linalg.ops.GenericOp) -> SSAValue:
    """
    Returns the contraction's operand that may be stored in any order: the weight, or else an
    operand without windows.
    """
    windows = [any(not isinstance(e, AffineDimExpr) for e in map.results) for map in maps_of(op)]
    from xdsl_spirv.passes.analysis.values import is_weight

    first, second = op.inputs
    if is_weight(first) != is_weight(second):
        return first if is_weight(first) else second
    return second if windows[0] else first


def _stored_map(map: AffineMap, order: Order) -> AffineMap:
    return AffineMap(map.num_dims, 0, tuple(permute(map.results, order)))


def _generic(
    op: linalg.ops.GenericOp,
    inputs: Sequence[SSAValue],
    outputs: Sequence[SSAValue],
    maps: Sequence[AffineMap],
) -> linalg.ops.GenericOp:
    """
    Clones an operation with new operands and maps. The clone's loops have the order of the result's
    dimensions.
    """
    count = maps[0].num_dims
    written = [e.position for e in maps[len(inputs)].results if isinstance(e, AffineDimExpr)]
    loops = [*written, *(loop for loop in range(count) if loop not in written)]
    new = [AffineDimExpr(loops.index(loop)) for loop in range(count)]
    renamed = [map.replace_dims_and_symbols(new, [], count, 0) for map in maps]
    kinds = list(op.get_iterator_types())
    body = op.body.clone()
    for inner in body.walk():
        if isinstance(inner, linalg.ops.IndexOp):
            inner.dim = IntegerAttr(loops.index(inner.dim.value.data), i64)
    return make_generic(inputs, outputs, renamed, body, [kinds[loop] for loop in loops], op)


def with_type(op: Operation, type: Attribute) -> Operation:
    """Changes the type of a detached operation's single result. Returns the operation."""
    Rewriter.replace_value_with_new_type(op.results[0], type)
    return op


def permuted_lists(
    op: Operation, operands: Sequence[SSAValue], order: Order, _: Orders | None = None
) -> Operation:
    """Clones an operation with permuted operands, and permutes its per-dimension attributes."""
    new = op.clone()
    if isinstance(op, tensor.ConcatOp):
        new.operands = operands
        new.properties["dim"] = IntegerAttr(order.index(op.dim.value.data), op.dim.type)
        return new
    lead = [v for v in operands if isinstance(v.type, TensorType)]
    tail: list[SSAValue] = []
    segments = [1] * len(lead)
    for static, dynamic in LISTS:
        known = op.properties.get(static)
        if isinstance(known, DenseArrayBase):
            numbers = cast(Sequence[int], known.get_values())
            values = permute(_with_given(numbers, getattr(op, dynamic)), order)
            new.properties[static] = DenseArrayBase.from_list(i64, [n for n, _ in values])
            added = [value for _, value in values if value is not None]
            segments.append(len(added))
            tail += added
    new.operands = [*lead, *tail]
    if "operandSegmentSizes" in op.properties:
        new.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, segments)
    return new


def _with_given(
    numbers: Sequence[int], given: Sequence[SSAValue]
) -> list[tuple[int, SSAValue | None]]:
    values = iter(given)
    return [(n, next(values) if n == DYNAMIC_INDEX else None) for n in numbers]


def _reorder_reshape(
    op: Operation, operands: Sequence[SSAValue], order: Order, orders: Orders | None
) -> Operation:
    """
    Clones a reshape so that its result has the storage order `order`.

    `orders` maps tensors to storage orders. A reshape groups the dimensions of one tensor so that
    each group is one dimension of the other. The groups are listed in the storage order of the
    other tensor.
    """
    assert isinstance(op, tensor.ExpandShapeOp | tensor.CollapseShapeOp)
    assert orders is not None
    few = orders[op.src if isinstance(op, tensor.ExpandShapeOp) else op.result]
    groups = groups_of(op)
    new = permuted_lists(op, operands, order)
    new.properties["reassociation"] = reassociation_of(consecutive(len(groups[n]) for n in few))
    return new
