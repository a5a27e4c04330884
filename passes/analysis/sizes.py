"""
Expresses sizes of tensors and buffers, and values of type `index`, in terms of other sizes.

A computed size is expressed by the sizes on which it depends, so that static factors remain known
in dynamic sizes (a row of 768 elements is still copied in vectors).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import affine, arith, bufferization, cf, gpu, linalg, memref, scf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.memref import DimOp as BufferDimOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule import (
    AttentionOp,
    DispatchOp,
    PackOp,
    PaddedViewOp,
    SelectedViewOp,
    shaped_of,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Atom,
    Extent,
    Least,
    Quotient,
    Size,
    SymbolicSize,
    UnknownSizeError,
    ceil_div,
    is_dynamic,
    least,
    symbol,
)
from xdsl_spirv.passes.analysis.values import erase_unused_ops


def extent(value: SSAValue, dimension: int) -> Size:
    """
    Returns the size of a tensor's or buffer's dimension.

    A computed size is expressed by other sizes, operation by operation.
    """
    size = shaped_of(value).get_shape()[dimension]
    return size if size != DYNAMIC_INDEX else computed_extent(value, dimension)


def extents(value: SSAValue) -> tuple[Size, ...]:
    """Returns the sizes of all dimensions of a tensor or buffer."""
    return tuple(extent(value, dimension) for dimension in range(shaped_of(value).get_num_dims()))


def computed_extent(value: SSAValue, dimension: int) -> Size:
    """Returns the size that an operation computes for a dimension, even if its type is static."""
    if isinstance(value, BlockArgument):
        return symbol(Extent(value, dimension))
    match value.owner:
        case LinalgStructuredOperation() as op:
            return _result_extent(op, value, dimension)
        case PaddedViewOp() as op:
            around = op.low.get_values()[dimension] + op.high.get_values()[dimension]
            return extent(op.memref, dimension) + around
        case SelectedViewOp() as op:
            inner = dimension - shaped_of(op.numbers).get_num_dims() + 1
            return extent(op.source, inner) if inner > 0 else extent(op.numbers, dimension)
        case tensor.PadOp() as op:
            around = listed_sizes(op.static_low, op.low), listed_sizes(op.static_high, op.high)
            return extent(op.source, dimension) + around[0][dimension] + around[1][dimension]
        case tensor.EmptyOp() | memref.AllocOp() | tensor.SplatOp() as op:
            before = shaped_of(op.results[0]).get_shape()[:dimension].count(DYNAMIC_INDEX)
            given = op.operands[1:] if isinstance(op, tensor.SplatOp) else op.operands
            return number(given[before])
        case tensor.CastOp() | memref.CastOp() as op:
            return extent(op.operands[0], dimension)
        case bufferization.ToBufferOp() | bufferization.ToTensorOp() as op:
            return extent(op.operands[0], dimension)
        case tensor.ExtractSliceOp() | memref.SubviewOp() as op:
            static = [int(size) for size in op.static_sizes.get_values()]
            kept = kept_dimensions(static, shaped_of(value).get_shape())
            return listed_sizes(op.static_sizes, op.sizes)[kept[dimension]]
        case tensor.ConcatOp() as op:
            parts = [extent(part, dimension) for part in op.inputs]
            return sum(parts) if dimension == op.dim.value.data else parts[0]
        case tensor.InsertSliceOp() as op:
            return extent(op.dest, dimension)
        case tensor.ExpandShapeOp() | memref.ExpandShapeOp() as op:
            return listed_sizes(op.static_output_shape, op.operands[1:])[dimension]
        case tensor.CollapseShapeOp() | memref.CollapseShapeOp() as op:
            total = 1
            for axis in op.reassociation.data[dimension].data:
                total *= extent(op.operands[0], axis.value.data)
            return total
        case linalg.ops.BroadcastOp() as op:
            return extent(op.init, dimension)
        case AttentionOp() as op:
            return extent(op.out, dimension)
        case PackOp() as op:
            return extent(op.destination, dimension)
        case scf.ForOp() as op:
            # An iteration does not change the sizes of carried tensors.
            return extent(op.iter_args[op.results.index(value)], dimension)  # pyright: ignore
        case _:
            pass
    return symbol(Extent(value, dimension))


def kept_dimensions(sizes: Sequence[Size], shape: Sequence[Size]) -> list[int]:
    """Returns the dimensions that remain when dimensions of size 1 are dropped to give `shape`."""
    kept: list[int] = []
    for axis, size in enumerate(sizes):
        left = len(shape) - len(kept)
        is_droppable = size == 1 and len(sizes) - axis > left
        if not is_droppable or (left and shape[len(kept)] == 1):
            kept.append(axis)
    return kept


def listed_sizes(static: DenseArrayBase[IntegerType], dynamic: Iterable[SSAValue]) -> list[Size]:
    """
    Returns the sizes that an operation lists: numbers from `static`, and for dynamic sizes the
    values in `dynamic`.
    """
    left = iter(dynamic)
    return [number(next(left)) if n == DYNAMIC_INDEX else int(n) for n in static.get_values()]


def _result_extent(op: LinalgStructuredOperation, value: SSAValue, dimension: int) -> Size:
    index = next(n for n, result in enumerate(op.results) if result is value)
    known = _input_extent(op, len(op.inputs) + index, dimension)
    return extent(op.outputs[index], dimension) if known is None else known


def _input_extent(op: LinalgStructuredOperation, operand: int, dimension: int) -> Size | None:
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    walked = maps[operand].results[dimension]
    if isinstance(walked, AffineDimExpr) and not isinstance(op, linalg.ops.FillOp):
        for source, map in zip(op.inputs, maps, strict=False):
            for at, expression in enumerate(map.results):
                if expression == walked and isinstance(source.type, TensorType | MemRefType):
                    return extent(source, at)
    return None


def loop_extents(op: LinalgStructuredOperation) -> list[Size | None]:
    """Returns each loop's size; None if no operand dimension is indexed by this loop alone."""
    sizes: list[Size | None] = [None] * op.get_num_loops()
    for loop, value, dimension in _loop_dimensions(op):
        known = sizes[loop]
        if known is None or is_dynamic(known):
            size = extent(value, dimension)
            if known is None or not is_dynamic(size):
                sizes[loop] = size
    return sizes


def equal_extents(ops: Iterable[Operation]) -> dict[Extent, Size]:
    """Maps sizes of dimensions to other sizes that the operations require to be equal."""
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
    """Yields loop, operand and dimension for each dimension that is indexed by a single loop."""
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    for value, map in zip((*op.inputs, *op.outputs), maps, strict=True):
        if isinstance(value.type, TensorType | MemRefType):
            for dimension, expression in enumerate(map.results):
                if isinstance(expression, AffineDimExpr):
                    yield expression.position, value, dimension


def size_outside(size: Size, dispatch: DispatchOp, of: Callable[[Extent], Size]) -> Size:
    """
    Expresses a size inside a dispatch by sizes outside. `of` returns the size of a dimension of an
    operand of the dispatch.
    """
    if not is_dynamic(size):
        return size
    given = {
        inner: replace(inner, value=dispatch.inputs[inner.value.index])
        for inner in size.extents
        if isinstance(inner.value, BlockArgument) and inner.value.owner is dispatch.body.block
    }
    return size.replaced({inner: of(outer) for inner, outer in given.items()})


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
    """Expresses an `index` value, or an integer converted from one, in terms of sizes."""
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
            operands: list[Any] = [number(operand) for operand in op.mapOperands]
            dims, symbols = operands[: function.num_dims], operands[function.num_dims :]
            # A product or quotient of unknown numbers is not simplified: it is an unknown of its
            # own.
            with suppress(UnknownSizeError, TypeError, ZeroDivisionError):
                return function.results[0].eval(dims, symbols)
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
    """True if an operation is a constant, or computes a size from other sizes."""
    return isinstance(op, (arith.ConstantOp, *NUMBERS)) and (
        isinstance(op, arith.ConstantOp | tensor.DimOp) or is_size(op.results[0])
    )


def is_given(value: SSAValue) -> bool:
    """
    True if a value of type `index` is an argument of the function, so that it is known before the
    function runs.
    """
    block = value.owner
    if not isinstance(block, Block) or not isinstance(value.type, IndexType):
        return False
    # A kernel's body is built before its function exists.
    parent = block.parent_op()
    return parent is None or isinstance(parent, FuncOp | DispatchOp | gpu.FuncOp)


def is_size(value: SSAValue) -> bool:
    """
    True if a value depends only on sizes of tensors, arguments of type `index`, and constants.
    """
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
    """True if an operation compares sizes, or asserts such a comparison."""
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
    """Emits operations that compute sizes; `write` inserts each operation."""

    def __init__(
        self,
        write: Callable[[Operation], object],
        values: Values | None = None,
        known: dict[object, SSAValue] | None = None,
    ):
        self.write, self.values = write, values
        self._known = {} if known is None else known
        """Maps sizes that were already emitted to their values."""

    def value(self, size: Size) -> SSAValue:
        """Emits a size as a value of type `index`."""
        if not is_dynamic(size):
            key = ("constant", size)
            return self._once(key, lambda: arith.ConstantOp(IntegerAttr(size, INDEX)))
        if size not in self._known:
            self._known[size] = self._sum(size)
        return self._known[size]

    def empty(self, sizes: Sequence[Size], element: Attribute) -> SSAValue:
        """Emits an empty tensor of these sizes."""
        shape = [DYNAMIC_INDEX if is_dynamic(size) else size for size in sizes]
        given = [self.value(size) for size in sizes if is_dynamic(size)]
        op = tensor.EmptyOp(given, TensorType(element, shape))
        self.write(op)
        return op.tensor

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
            return self._made(kind, self.value(atom.size), self.value(atom.number))
        if isinstance(atom, Quotient):
            # A window that is wider than its operand has 0 positions: (0 - 1) // 2 + 1 = 0.
            kind = arith.DivUIOp if atom.is_natural else arith.FloorDivSIOp
            return self._made(kind, self.value(atom.size), self.value(atom.number))
        value = atom.value if self.values is None else self.values[atom.value]
        if isinstance(value.type, IndexType):
            return value
        kind = BufferDimOp if isinstance(value.type, MemRefType) else tensor.DimOp
        at = self.value(atom.dimension)
        return self._once(
            (kind, value, at), lambda: kind.create(operands=[value, at], result_types=[INDEX])
        )


def resolve_sizes(block: Block) -> None:
    """
    Computes each size of a computed tensor from the block's arguments.

        schedule.dispatch(%A, %B, %X) {               schedule.dispatch(%A, %B) {
          ^bb0(%a, %b, %x):                             ^bb0(%a, %b):
            %m = tensor.dim %x, %c0               ->      %m = tensor.dim %a, %c0
            %e = tensor.empty(%m) ...                     %e = tensor.empty(%m)
            %r = linalg.matmul ins(%a, %b) ...            %r = linalg.matmul ins(%a, %b) ...

    An output has the sizes of its loops, so a tensor that is passed only for its shape is dropped.
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


def localize_sizes(dispatch: DispatchOp) -> None:
    """Drops operands that a dispatch reads only for their sizes; may replace the dispatch."""
    block = dispatch.body.block
    empties = [op for op in block.ops if isinstance(op, tensor.EmptyOp) and op.operands]
    if not empties:
        return
    code = SizeCode(Builder(InsertPoint.at_start(block)).insert)
    for op in empties:
        _localize(op, code)
    erase_unused_ops(block, is_size_op)
    dispatch.drop_unread_operands()


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
    return isinstance(dimension.value, BlockArgument)


def _size_by_loops(value: SSAValue, dimension: int) -> Size | None:
    """
    Returns the size of an output's dimension, derived from the operands that are indexed by the
    same loop. Returns None if there are none.
    """
    for use in value.uses:
        op = use.operation
        if not isinstance(op, LinalgStructuredOperation) or use.index < len(op.inputs):
            continue
        if isinstance(op, linalg.ops.FillOp):
            size = _size_by_loops(op.results[0], dimension) if op.results else None
        else:
            size = _input_extent(op, use.index, dimension)
        if size is not None:
            return size
    return None
