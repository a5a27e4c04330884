"""
Computes ranges of the values of a host function: of tensor elements, and of scalars in loops.

Forward analysis computes an operation's range from its operands (`ranges`). The range of a
reduction's accumulator starts with the initial value and is extended by every iteration's result
until it is stable; a sum is bounded by its number of iterations.

Backward analysis uses that an index of a tensor lies in bounds: an index out of bounds is an error
in ONNX, and undefined in MLIR. An index of `tensor.extract` therefore lies in [0, size - 1]. This
also limits the values from which the index is computed by moves, casts and the addition of a
constant. An index that may count from the end, `x < 0 ? x + n : x`, lies in [-n, size - 1].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from xdsl_spirv.dialects.host_loops import number_of
from xdsl_spirv.dialects.program import RANGE
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, is_dynamic
from xdsl_spirv.passes.analysis.linalg_code import tensor_type, yields_of
from xdsl_spirv.passes.analysis.ranges import (
    MOST_ELEMENTS,
    NOTHING,
    Range,
    compute_range,
    everything,
)
from xdsl_spirv.passes.analysis.sizes import equal_extents, extents, loop_extents, number

MOVES = (
    tensor.CollapseShapeOp,
    tensor.ExpandShapeOp,
    tensor.CastOp,
    tensor.ExtractSliceOp,
)
"""Operations whose result consists of elements of their first operand."""

JOINS = (tensor.InsertSliceOp, tensor.ConcatOp)
"""Operations whose result consists of elements of all their tensor operands."""

ROUNDS = 4
"""Largest number of iterations until an accumulator's range must be stable."""


class ValueRanges:
    """
    Ranges of the values in the single block of a host function.

    If `trusted`, indices of tensors are assumed to lie in bounds.
    """

    def __init__(self, function: FuncOp, trusted: bool = True):
        self._block = function.body.block
        self._dynamic: tuple[list[list[Size]], dict[Extent, Size]] | None = None
        self._known: dict[SSAValue, Range] = {}
        self._assumed: dict[SSAValue, Range] = {}
        self._declared(function)
        if trusted:
            for op in function.body.block.ops:
                if isinstance(op, linalg.ops.GenericOp):
                    self._assume_addresses(op)
        for op in function.body.block.ops:
            self._visit(op)

    def of(self, value: SSAValue) -> Range:
        """Returns the range of a value; the whole range of its type if nothing is known."""
        interval = self._known.get(value) or everything(value.type)
        assumed = self._assumed.get(value)
        interval = interval if assumed is None else interval.meet(assumed)
        return everything(value.type) if interval == NOTHING else interval

    def _declared(self, function: FuncOp) -> None:
        attributes = function.arg_attrs.data if function.arg_attrs else ()
        for argument, entry in zip(function.body.block.args, attributes, strict=False):
            declared = entry.data.get(RANGE)
            if isinstance(declared, ArrayAttr):
                low, high = (a.value.data for a in declared if isinstance(a, IntegerAttr))
                self._known[argument] = Range(low, high).meet(everything(argument.type))

    # Forwards

    def _set(self, value: SSAValue, interval: Range) -> None:
        assumed = self._assumed.get(value)
        self._known[value] = interval if assumed is None else interval.meet(assumed)

    def written(self, value: SSAValue) -> Range:
        """Returns the range of a tensor's elements; the empty range if none was written."""
        return self._known.get(value) or self.of(value)

    def _visit(self, op: Operation) -> None:
        match op:
            case linalg.ops.GenericOp():
                self._generic(op)
            case tensor.EmptyOp():
                self._known[op.results[0]] = NOTHING
            case linalg.ops.FillOp() if op.results:
                self._set(op.results[0], self.of(op.operands[0]))
            case tensor.PadOp():
                padding = everything(op.result.type)
                if not op.region.block.args[0].uses:
                    padding = self.of(yields_of(op.region.block)[0])
                self._set(op.result, padding.hull(self.written(op.source)))
            case _ if isinstance(op, MOVES):
                self._set(op.results[0], self.written(op.operands[0]))
            case _ if isinstance(op, JOINS):
                hull = NOTHING
                for value in op.operands:
                    if isinstance(value.type, TensorType):
                        hull = hull.hull(self.written(value))
                self._set(op.results[0], hull)
            case _ if len(op.results) == 1 and not op.regions:
                self._set(op.results[0], self._scalar(op))
            case _:
                pass

    def _scalar(self, op: Operation) -> Range:
        if isinstance(op, tensor.ExtractOp):
            return self.of(op.tensor)
        if isinstance(op, linalg.ops.IndexOp):
            return self._index(op)
        if isinstance(op, tensor.DimOp):
            static = (size for size in extents(op.source) if not is_dynamic(size))
            return Range(0, MOST_ELEMENTS // max(1, prod(static)))
        interval = compute_range(op, [self.of(operand) for operand in op.operands])
        if isinstance(op, arith.MuliOp) and interval.high > MOST_ELEMENTS:
            return interval.meet(self._product(op))
        return interval

    def _product(self, op: arith.MuliOp) -> Range:
        """
        Returns the range of a product of dimensions of one tensor. Its limit is the largest number
        of elements of a tensor.
        """
        shapes, equal = self._shapes()
        factors = [_replace_extents(number(value), equal) for value in factors_of(op)]
        if not all(map(is_dynamic, factors)):
            return everything(op.result.type)
        for shape in shapes:
            left = list(shape)
            for factor in factors:
                if factor not in left:
                    break
                left.remove(factor)
            else:
                static = (size for size in left if not is_dynamic(size))
                return Range(0, MOST_ELEMENTS // max(1, prod(static)))
        return everything(op.result.type)

    def _shapes(self) -> tuple[list[list[Size]], dict[Extent, Size]]:
        """
        Returns the shapes of tensors with dynamic sizes, and a map of sizes to other sizes that
        must be equal.
        """
        if self._dynamic is None:
            block = self._block
            values = [*block.args, *(result for op in block.ops for result in op.results)]
            equal = equal_extents(block.ops)
            shapes = [
                [_replace_extents(size, equal) for size in extents(value)]
                for value in values
                if isinstance(value.type, TensorType)
            ]
            self._dynamic = [shape for shape in shapes if any(map(is_dynamic, shape))], equal
        return self._dynamic

    def _index(self, op: linalg.ops.IndexOp) -> Range:
        parent = op.parent_op()
        if not isinstance(parent, linalg.ops.GenericOp):
            return Range(0, MOST_ELEMENTS - 1)
        size = loop_extents(parent)[op.dim.value.data]
        return Range(0, max(0, (size if isinstance(size, int) else MOST_ELEMENTS) - 1))

    def _generic(self, op: linalg.ops.GenericOp) -> None:
        block = op.body.block
        inputs, outputs = block.args[: len(op.inputs)], block.args[len(op.inputs) :]
        for argument, value in zip(inputs, op.inputs, strict=True):
            self._set(argument, self.of(value))
        starts = [self.written(value) for value in op.outputs]
        if all(kind == IteratorTypeAttr.parallel() for kind in op.get_iterator_types()):
            for argument, value in zip(outputs, op.outputs, strict=True):
                self._set(argument, self.of(value))
            intervals = self._body(block)
        else:
            intervals = self._reduced(op, outputs, starts)
        for result, interval in zip(op.results, intervals, strict=True):
            self._set(result, interval)

    def _body(self, block: Block) -> list[Range]:
        for op in block.walk():
            if len(op.results) == 1 and not op.regions:
                self._set(op.results[0], self._scalar(op))
        return [self.of(value) for value in yields_of(block)]

    def _reduced(
        self, op: linalg.ops.GenericOp, outputs: Sequence[SSAValue], starts: Sequence[Range]
    ) -> list[Range]:
        """Returns ranges of accumulators that hold after every iteration."""
        block = op.body.block
        held = list(starts)
        for _ in range(ROUNDS):
            for argument, interval in zip(outputs, held, strict=True):
                self._known[argument] = (
                    everything(argument.type) if interval == NOTHING else interval
                )
            grown = [a.hull(b) for a, b in zip(held, self._body(block), strict=True)]
            if grown == held:
                return grown
            held = grown
        sums = [self._sum(op, number, start) for number, start in enumerate(starts)]
        for argument, interval in zip(outputs, sums, strict=True):
            self._known[argument] = interval or everything(argument.type)
        yielded = self._body(block)
        for value, interval in zip(yields_of(block), sums, strict=True):
            if interval is not None:
                self._known[value] = interval
        return [interval or whole for interval, whole in zip(sums, yielded, strict=True)]

    def _sum(self, op: linalg.ops.GenericOp, number: int, start: Range) -> Range | None:
        """Returns the range of a sum over all iterations; None if no range is known."""
        block = op.body.block
        accumulator = block.args[len(op.inputs) + number]
        value = yields_of(block)[number]
        if not isinstance(value.owner, arith.AddiOp):
            return None
        terms = [operand for operand in value.owner.operands if operand is not accumulator]
        sizes = loop_extents(op)
        if len(terms) != 1 or len(list(accumulator.uses)) != 1 or start == NOTHING:
            return None
        term = self.of(terms[0])
        kinds = op.get_iterator_types()
        turns = [s for s, k in zip(sizes, kinds, strict=True) if k != IteratorTypeAttr.parallel()]
        known = [size for size in turns if isinstance(size, int)]
        if len(known) != len(turns):
            return None
        count = prod(known)
        low = start.low + count * min(0, term.low)
        high = start.high + count * max(0, term.high)
        whole = everything(value.type)
        return Range(low, high) if whole.low <= low and high <= whole.high else None

    # Backwards

    def _assume_addresses(self, op: linalg.ops.GenericOp) -> None:
        """Assumes that a body's indices of tensors lie in bounds."""
        for inner in op.body.block.ops:
            if not isinstance(inner, tensor.ExtractOp):
                continue
            shape = tensor_type(inner.tensor).get_shape()
            for value, size in zip(inner.indices, shape, strict=True):
                most = MOST_ELEMENTS if size < 1 else size
                self._assume(value, Range(0, most - 1))

    def _assume(self, value: SSAValue, bounds: Range) -> None:
        """
        Limits the range of a value to `bounds`, and the ranges of values from which it is computed
        one to one.
        """
        held = self._assumed.get(value)
        self._assumed[value] = bounds if held is None else held.meet(bounds)
        if isinstance(value, BlockArgument):
            self._assume_argument(value, bounds)
            return
        owner = value.owner
        match owner:
            case arith.IndexCastOp() | arith.ExtSIOp():
                self._assume(owner.operands[0], bounds)
            case arith.AddiOp() if (shift := number_of(owner.rhs)) is not None:
                self._assume(owner.lhs, Range(bounds.low - shift, bounds.high - shift))
            case arith.SelectOp():
                counted = counted_from_the_end(owner)
                if counted is not None:
                    source, size = counted
                    self._assume(source, Range(min(-size, bounds.low), bounds.high))
            case _ if isinstance(owner, MOVES) and not isinstance(owner, tensor.ExtractSliceOp):
                self._assume(owner.operands[0], bounds)
            case linalg.ops.GenericOp() if _is_elementwise(owner):
                assert isinstance(value, OpResult)
                self._assume(yields_of(owner.body.block)[value.index], bounds)
            case _:
                pass

    def _assume_argument(self, value: BlockArgument, bounds: Range) -> None:
        """
        Limits the elements of the tensor that a body argument reads to `bounds`, if the loops read
        every element.
        """
        if (read := _read_by(value)) is None:
            return
        op, map = read
        dims = [result for result in map.results if isinstance(result, AffineDimExpr)]
        if len({result.position for result in dims}) == len(map.results):
            self._assume(op.inputs[value.index], bounds)


def _read_by(argument: BlockArgument) -> tuple[linalg.ops.GenericOp, AffineMap] | None:
    """
    Returns the operation that has this body argument, and the map by which it reads the input.
    Returns None for other values.
    """
    op = argument.block.parent_op()
    if not isinstance(op, linalg.ops.GenericOp) or argument.index >= len(op.inputs):
        return None
    return op, op.get_indexing_maps().data[argument.index].data


def _is_elementwise(op: linalg.ops.GenericOp) -> bool:
    """True if parallel loops over the results' shape compute each element once."""
    count = op.get_num_loops()
    outputs = op.get_indexing_maps().data[len(op.inputs) :]
    return all(k == IteratorTypeAttr.parallel() for k in op.get_iterator_types()) and all(
        tuple(e.position for e in output.data.results if isinstance(e, AffineDimExpr))
        == tuple(range(count))
        for output in outputs
    )


def _element(value: SSAValue) -> SSAValue:
    """
    Returns the tensor from which the loops read a body's scalar, or else the scalar itself.

    Two scalars with the same result are equal in every iteration.
    """
    while isinstance(value, BlockArgument):
        if (read := _read_by(value)) is None:
            return value
        parent, map = read
        places = [e.position for e in map.results if isinstance(e, AffineDimExpr)]
        if places != list(range(parent.get_num_loops())):
            return value
        operand = parent.inputs[value.index]
        owner = operand.owner
        if not isinstance(owner, linalg.ops.GenericOp) or not _is_elementwise(owner):
            return operand
        assert isinstance(operand, OpResult)
        value = yields_of(owner.body.block)[operand.index]
    return value


def counted_from_the_end(op: arith.SelectOp) -> tuple[SSAValue, int] | None:
    """Returns x and n of `x < 0 ? x + n : x`, also across elementwise operations; else None."""
    condition, added, plain = map(_element, (op.cond, op.lhs, op.rhs))
    compare, sum = condition.owner, added.owner
    if not isinstance(compare, arith.CmpiOp) or not isinstance(sum, arith.AddiOp):
        return None
    if compare.predicate.value.data != arith.CMPI_COMPARISON_OPERATIONS.index("slt"):
        return None
    size = number_of(sum.rhs)
    if size is None or size < 0 or number_of(compare.rhs) != 0:
        return None
    if _element(compare.lhs) is not plain or _element(sum.lhs) is not plain:
        return None
    return op.rhs, size


def _replace_extents(size: Size, known: Mapping[Extent, Size]) -> Size:
    return size.replaced(known) if is_dynamic(size) else size


def factors_of(value: Operation) -> list[SSAValue]:
    """Lists the factors of a nested product."""
    factors: list[SSAValue] = []
    for operand in value.operands:
        owner = operand.owner
        factors += factors_of(owner) if isinstance(owner, arith.MuliOp) else [operand]
    return factors
