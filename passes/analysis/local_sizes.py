"""
A dispatch finds the sizes of its tensors in those that it is given.

    schedule.dispatch(%A, %B, %X) {               schedule.dispatch(%A, %B) {
      ^bb0(%a, %b, %x):                             ^bb0(%a, %b):
        %m = tensor.dim %x, %c0               ->      %m = tensor.dim %a, %c0
        %e = tensor.empty(%m) ...                     %e = tensor.empty(%m)
        %r = linalg.matmul ins(%a, %b) ...            %r = linalg.matmul ins(%a, %b) ...

What an operation writes is as large as what its loops walk, so that a tensor which was passed for
its shape only need not come in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import affine, arith, cf, gpu, linalg, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntegerAttr, MemRefType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.memref import DimOp as BufferDimOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule import DispatchOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Atom,
    Extent,
    Least,
    Quotient,
    Size,
    SymbolicSize,
    is_dynamic,
)
from xdsl_spirv.passes.analysis.sizes import DIVISIONS, OPERATIONS, extent, number
from xdsl_spirv.passes.analysis.uses import erase_unused_ops

INDEX = IndexType()

Values: TypeAlias = Mapping[SSAValue, SSAValue]

NUMBERS = (
    tensor.DimOp,
    arith.IndexCastOp,
    arith.MinUIOp,
    arith.MinSIOp,
    affine.ApplyOp,
    *OPERATIONS,
    *DIVISIONS,
)


def is_size_op(op: Operation) -> bool:
    """Whether an operation is a constant, or computes a size of others."""
    return isinstance(op, (arith.ConstantOp, *NUMBERS)) and (
        isinstance(op, arith.ConstantOp | tensor.DimOp) or is_size(op.results[0])
    )


def is_given(value: SSAValue) -> bool:
    """Whether a number of type `index` is an argument: its caller knows it before it runs."""
    block = value.owner
    if not isinstance(block, Block) or not isinstance(value.type, IndexType):
        return False
    return isinstance(block.parent_op(), FuncOp | DispatchOp | gpu.FuncOp)


def is_size(value: SSAValue) -> bool:
    """Whether a number is computed from sizes of tensors, given numbers and constants alone."""
    if is_given(value):
        return True
    op = value.owner
    if isinstance(op, arith.ConstantOp):
        return not isinstance(value.type, TensorType)
    if not isinstance(op, Operation) or not isinstance(op, NUMBERS):
        return False
    numbers = op.operands[1:] if isinstance(op, tensor.DimOp) else op.operands
    return all(map(is_size, numbers))


def is_size_check(op: Operation) -> bool:
    """Whether an operation compares sizes, or asserts what a comparison of them says."""
    if isinstance(op, cf.AssertOp):
        owner = op.arg.owner
        return isinstance(owner, Operation) and is_size_check(owner)
    if isinstance(op, arith.CmpiOp):
        return all(map(is_size, op.operands))
    if isinstance(op, arith.AndIOp | arith.OrIOp | arith.XOrIOp):
        return all(
            is_size(value) or (isinstance(value.owner, Operation) and is_size_check(value.owner))
            for value in op.operands
        )
    return False


class SizeCode:
    """Computes sizes by operations that `write` puts where they shall stand."""

    def __init__(
        self,
        write: Callable[[Operation], object],
        values: Values | None = None,
        known: dict[object, SSAValue] | None = None,
    ):
        self.write, self.values = write, values
        """The block's stand-ins for values that sizes are computed from; None: they themselves."""
        self._known = {} if known is None else known
        """Values that have been written already."""

    def value(self, size: Size) -> SSAValue:
        """A size as a number of type `index`."""
        if not is_dynamic(size):
            key = ("constant", size)
            return self._once(key, lambda: arith.ConstantOp(IntegerAttr(size, INDEX)))
        if size not in self._known:
            self._known[size] = self._sum(size)
        return self._known[size]

    def _once(self, key: object, make: Callable[[], Operation]) -> SSAValue:
        if key not in self._known:
            op = make()
            self.write(op)
            self._known[key] = op.results[0]
        return self._known[key]

    def _sum(self, size: SymbolicSize) -> SSAValue:
        total: SSAValue | None = None
        for atoms, factor in sorted(size.terms, key=lambda term: term[1] < 0):
            subtracted = factor < 0 and total is not None
            term: SSAValue | None = None
            for atom in atoms:
                one = self._atom(atom)
                term = one if term is None else self._made(arith.MuliOp, term, one)
            factor = -factor if subtracted else factor
            if term is None:
                term = self.value(factor)
            elif factor != 1:
                term = self._made(arith.MuliOp, term, self.value(factor))
            if total is None:
                total = term
            else:
                total = self._made(arith.SubiOp if subtracted else arith.AddiOp, total, term)
        assert total is not None
        return total

    def _made(self, kind: Callable[..., Operation], *operands: SSAValue) -> SSAValue:
        return self._once((kind, *operands), lambda: kind(*operands))

    def _atom(self, atom: Atom) -> SSAValue:
        if isinstance(atom, Least):
            kind = arith.MinUIOp if atom.is_natural else arith.MinSIOp
            return self._made(kind, self.value(atom.value), self.value(atom.limit))
        if isinstance(atom, Quotient):
            # A window wider than what it slides over has no place: (0 - 1) // 2 + 1 is 0.
            kind = arith.DivUIOp if atom.is_natural else arith.FloorDivSIOp
            return self._made(kind, self.value(atom.dividend), self.value(atom.divisor))
        value = atom.value if self.values is None else self.values[atom.value]
        if isinstance(value.type, IndexType):
            return value
        kind = BufferDimOp if isinstance(value.type, MemRefType) else tensor.DimOp
        at = self.value(atom.dimension)
        return self._once(
            (kind, value, at), lambda: kind.create(operands=[value, at], result_types=[INDEX])
        )


def empty_of(sizes: Sequence[Size], element: Attribute) -> tuple[list[Operation], tensor.EmptyOp]:
    """A tensor of these sizes, and the operations before it that compute them."""
    before: list[Operation] = []
    code = SizeCode(before.append)
    given = [code.value(size) for size in sizes if is_dynamic(size)]
    shape = [DYNAMIC_INDEX if is_dynamic(size) else size for size in sizes]
    return before, tensor.EmptyOp(given, TensorType(element, shape))


def resolve_sizes(block: Block) -> None:
    """
    Every size that a block asks of a tensor which it computes is asked of one that it is given.
    """
    for op in list(block.ops):
        if not isinstance(op, tensor.DimOp) or isinstance(op.source, BlockArgument):
            continue
        size = number(op.result)
        if is_dynamic(size) and all(dimension.value is op.source for dimension in size.extents):
            continue
        op.result.replace_all_uses_with(
            SizeCode(Builder(InsertPoint.before(op)).insert).value(size)
        )
        op.detach()
        op.erase()


def localize_sizes(dispatch: DispatchOp) -> DispatchOp:
    """
    The dispatch, or one in its place without operands that only a size was asked of.
    """
    block = dispatch.body.block
    empties = [op for op in block.ops if isinstance(op, tensor.EmptyOp) and op.operands]
    if not empties:
        return dispatch
    code = SizeCode(Builder(InsertPoint.at_start(block)).insert)
    for op in empties:
        _localize(op, code)
    erase_unused_ops(block, is_size_op)
    return _without_unread(dispatch)


def _localize(op: tensor.EmptyOp, code: SizeCode) -> None:
    shape = op.tensor.type.get_shape()
    dynamic = [dimension for dimension, size in enumerate(shape) if size == DYNAMIC_INDEX]
    for at, dimension in enumerate(dynamic):
        size_of_output = _size_by_loops(op.tensor, dimension)
        if size_of_output is None:
            size_of_output = extent(op.tensor, dimension)
        if is_dynamic(size_of_output) and all(_is_given(part) for part in size_of_output.extents):
            op.operands[at] = code.value(size_of_output)


def _is_given(dimension: Extent) -> bool:
    """Whether it is a size of what comes into a dispatch."""
    return isinstance(dimension.value, BlockArgument)


def _size_by_loops(value: SSAValue, dimension: int) -> Size | None:
    """The size of an output by what the loops that write it read; None if nobody says."""
    for use in value.uses:
        op = use.operation
        if not isinstance(op, LinalgStructuredOperation) or use.index < len(op.inputs):
            continue
        if isinstance(op, linalg.ops.FillOp):
            size = _size_by_loops(op.results[0], dimension) if op.results else None
        else:
            size = _input_size(op, use.index, dimension)
        if size is not None:
            return size
    return None


def _input_size(op: LinalgStructuredOperation, index: int, dimension: int) -> Size | None:
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    walked = maps[index].results[dimension]
    if not isinstance(walked, AffineDimExpr):
        return None
    for operand, map in zip(op.inputs, maps, strict=False):
        for at, expression in enumerate(map.results):
            if expression == walked and isinstance(operand.type, TensorType):
                return extent(operand, at)
    return None


def _without_unread(dispatch: DispatchOp) -> DispatchOp:
    """The dispatch without operands that its body does not use."""
    block = dispatch.body.block
    kept = [n for n, argument in enumerate(block.args) if argument.first_use is not None]
    if len(kept) == len(block.args):
        return dispatch
    for argument in reversed(list(block.args)):
        if argument.first_use is None:
            block.erase_arg(argument)
    inputs = [dispatch.inputs[n] for n in kept]
    smaller = DispatchOp(
        inputs, [value.type for value in dispatch.outputs], dispatch.detach_region(0)
    )
    smaller.attributes = dispatch.attributes
    smaller.location = dispatch.location
    outer = dispatch.parent_block()
    assert outer is not None
    outer.insert_op_before(smaller, dispatch)
    for old, new in zip(dispatch.outputs, smaller.outputs, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    dispatch.detach()
    dispatch.erase()
    return smaller
