"""
Converts operations to arrays: determines the contents of each tensor or buffer.

One reader handles a `schedule.collective` (buffers, in the order of the writes) and the body of a
`schedule.dispatch` (tensors).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

from xdsl.dialects import arith, bufferization, linalg, memref, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    IndexType,
    MemRefType,
    TensorType,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.traits import IsTerminator

from xdsl_spirv.dialects.schedule import DispatchOp, PaddedViewOp, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, is_dynamic, surely_below
from xdsl_spirv.passes.analysis.loops_arrays import (
    Array,
    Computed,
    Filled,
    Literal,
    Loops,
    NotLoops,
    Padded,
    Patched,
    Reshaped,
    Result,
    Shape,
    Sliced,
    Stored,
    Transposed,
    Unwritten,
    shaped,
)
from xdsl_spirv.passes.analysis.sizes import equal_extents, is_given, listed_sizes


@dataclass(frozen=True)
class _View:
    """A part of a memref, with functions that read and write through the part."""

    source: SSAValue
    read: Callable[[Array], Array]
    write: Callable[[Array, Array], Array]


class Reader:
    """Reads operations in order. `arrays` has the current contents of each tensor or buffer."""

    def __init__(self, block: Block, ops: Iterable[Operation] | None = None):
        self.block = block
        self.ops = block.ops if ops is None else ops
        self.arrays: dict[SSAValue, Array] = {}
        self.views: dict[SSAValue, _View] = {}
        self.written: dict[SSAValue, None] = {}
        self.loaded: dict[Operation, Array] = {}
        """Maps each load outside of loops to the array that it reads."""

    @cached_property
    def equal(self) -> dict[Extent, Size]:
        """Maps a dynamic size to another size, if the operations require both to be equal."""
        return equal_extents(self.ops)

    def read(self) -> None:
        for op in self.ops:
            handler = HANDLERS.get(type(op))
            if handler is None and isinstance(op, LinalgStructuredOperation):
                handler = structured
            if handler is not None:
                handler(self, op)
            elif op.has_trait(IsTerminator):
                continue
            elif op.regions or any(
                isinstance(value.type, TensorType | MemRefType)
                for value in (*op.operands, *op.results)
            ):
                raise NotLoops(op, f"{op.name} cannot be lowered to loops")

    def shaped(self, value: SSAValue, op: Operation) -> tuple[Shape, Attribute]:
        """
        Returns the shape and the element type of a tensor or memref. Sizes that must be equal are
        represented by one of them.
        """
        shape, element = shaped(value, op)
        return tuple(self.size(size) for size in shape), element

    def size(self, size: Size) -> Size:
        """Returns a size in which equal sizes are replaced by one representative."""
        return size.replaced(self.equal) if is_dynamic(size) else size

    def array(self, value: SSAValue, op: Operation) -> Array:
        """Returns the current contents of a tensor or buffer."""
        view = self.views.get(value)
        if view is not None:
            return view.read(self.array(view.source, op))
        if value not in self.arrays:
            shape, element = self.shaped(value, op)
            self.arrays[value] = Stored(shape, element, value)
        return self.arrays[value]

    def define(self, op: Operation, number: int, array: Array) -> None:
        """Sets an operation's output: its result, or the contents of its output buffer."""
        if op.results:
            self.arrays[op.results[number]] = array
            return
        outputs: Sequence[SSAValue] = getattr(op, "outputs", ()) or op.operands[-1:]
        self.write(outputs[number], array, op)

    def write(self, value: SSAValue, array: Array, op: Operation) -> None:
        """Sets the contents of a buffer."""
        view = self.views.get(value)
        if view is None:
            self.arrays[value] = array
            self.written[value] = None
            return
        if view.source not in self.views and view.source not in self.arrays:
            # Memory that the kernel has not read before has undefined contents.
            shape, element = self.shaped(view.source, op)
            self.arrays[view.source] = Unwritten(shape, element, op)
        self.write(view.source, view.write(self.array(view.source, op), array), op)


def results_of_collective(
    block: Block, ops: Iterable[Operation] | None = None
) -> tuple[Reader, list[Result]]:
    """
    Returns the arrays that a collective, or some of its operations, write to the kernel's buffers.

    Results are in the order of the first write.
    """
    reader = Reader(block, ops)
    reader.read()
    outside = [value for value in reader.written if _is_outside(value, block)]
    return reader, [Result(reader.arrays[value], value) for value in outside]


def results_of_dispatch(
    dispatch: DispatchOp, ops: Iterable[Operation] | None = None
) -> tuple[Reader, list[Result]]:
    """Returns the arrays that a dispatch, or some of its operations, yield."""
    block = dispatch.body.block
    reader = Reader(block, ops)
    for operand in dispatch.updates.values():
        # Elements outside of the update stay in memory and are not written.
        shape, element = reader.shaped(block.args[operand], dispatch)
        reader.arrays[block.args[operand]] = Unwritten(shape, element, dispatch)
    reader.read()
    yielded = [reader.array(value, dispatch) for value in dispatch.yielded]
    return reader, [Result(a, v) for a, v in zip(yielded, dispatch.outputs, strict=True)]


def results_of_operations(
    ops: Sequence[Operation], values: Sequence[SSAValue]
) -> tuple[Reader, list[Result]]:
    """Returns `values` as arrays that some operations of a block compute from other values."""
    block = ops[0].parent_block()
    assert block is not None
    reader = Reader(block, ops)
    reader.read()
    return reader, [Result(reader.array(value, ops[-1]), value) for value in values]


def _is_outside(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    return isinstance(owner, Block) or owner.parent_block() is not block


# Structured operations


def structured(reader: Reader, op: Operation) -> None:
    assert isinstance(op, LinalgStructuredOperation)
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    kinds = [attribute.data for attribute in op.get_iterator_types()]
    outputs = list(op.outputs)
    inputs = list(op.operands)[: len(op.operands) - len(outputs)]
    _loops(
        reader,
        op,
        op.body.block,
        inputs,
        outputs,
        maps,
        [k != IteratorType.PARALLEL for k in kinds],
    )


def _loops(
    reader: Reader,
    op: Operation,
    body: Block,
    inputs: Sequence[SSAValue],
    outputs: Sequence[SSAValue],
    maps: list[AffineMap],
    reduction: list[bool],
) -> None:
    """Reads an operation as loops over its operands, and defines its outputs."""
    shapes = [_shape_or_scalar(reader, value, op) for value in (*inputs, *outputs)]
    sizes = _sizes(maps, shapes, op)
    taken: list[Array | SSAValue] = [
        reader.array(v, op) if isinstance(v.type, TensorType | MemRefType) else v for v in inputs
    ]
    loops = Loops(
        op,
        body,
        sizes,
        tuple(reduction),
        taken,
        [reader.array(value, op) for value in outputs],
        maps,
        _captured_arrays(reader, op, body),
    )
    loops.inverse = [_inverse(loops, map) for map in loops.output_maps]
    for at, value in enumerate(outputs):
        shape, element = reader.shaped(value, op)
        reader.define(op, at, Computed(shape, element, loops, at))


def _shape_or_scalar(reader: Reader, value: SSAValue, op: Operation) -> Shape:
    if isinstance(value.type, TensorType | MemRefType):
        return reader.shaped(value, op)[0]
    return ()


def _sizes(maps: Sequence[AffineMap], shapes: Sequence[Shape], op: Operation) -> Shape:
    """Returns the size of each loop, from an operand dimension that no other loop indexes."""
    sizes: dict[int, Size] = {}
    for map, shape in zip(maps, shapes, strict=True):
        for expr, size in zip(map.results, shape, strict=True):
            if isinstance(expr, AffineDimExpr):
                known = sizes.setdefault(expr.position, size)
                if is_dynamic(known) and not is_dynamic(size):
                    sizes[expr.position] = size
    count = maps[0].num_dims
    missing = [loop for loop in range(count) if loop not in sizes]
    if missing:
        raise NotLoops(op, f"no operand dimension determines the size of loop d{missing[0]}")
    return tuple(sizes[loop] for loop in range(count))


def _inverse(loops: Loops, map: AffineMap) -> tuple[int | None, ...]:
    """
    Returns, for each dimension of the output, the loop that indexes it. Returns None for a
    dimension with the constant index 0.
    """
    positions: list[int | None] = []
    for expr in map.results:
        if isinstance(expr, AffineDimExpr) and expr.position not in positions:
            positions.append(expr.position)
        elif expr == AffineExpr.constant(0):
            positions.append(None)
        else:
            raise NotLoops(
                loops.op, f"an output is indexed by {expr}: use 0 or a loop that is not used yet"
            )
    for loop, size in enumerate(loops.sizes):
        if loop not in positions and not loops.reduction[loop] and size != 1:
            raise NotLoops(loops.op, f"the parallel loop d{loop} does not index every output")
    if any(loop is not None and loops.reduction[loop] for loop in positions):
        raise NotLoops(loops.op, "a reduction loop indexes an output: declare the loop parallel")
    return tuple(positions)


def _captured_arrays(reader: Reader, op: Operation, body: Block) -> dict[SSAValue, Array]:
    """Returns the arrays that a body reads by `tensor.extract` or `memref.load`."""
    arrays: dict[SSAValue, Array] = {}
    for inner in body.walk():
        if isinstance(inner, tensor.ExtractOp | memref.LoadOp):
            source = inner.operands[0]
            arrays[source] = reader.array(source, op)
    return arrays


def _reduce(reader: Reader, op: linalg.ops.ReduceOp) -> None:
    shape, _ = reader.shaped(op.input, op)
    dims = [int(axis) for axis in op.dimensions.get_values()]
    rank = len(shape)
    kept = tuple(AffineDimExpr(axis) for axis in range(rank) if axis not in dims)
    maps = [AffineMap.identity(rank), AffineMap(rank, 0, kept)]
    reduction = [axis in dims for axis in range(rank)]
    _loops(reader, op, op.region.block, [op.input], [op.init], maps, reduction)


def _fill(reader: Reader, op: Operation) -> None:
    value, output = op.operands
    shape, element = reader.shaped(output, op)
    if value.type != element:
        raise NotLoops(
            op, f"the fill value must have type {element}, not {value.type}: convert it first"
        )
    reader.define(op, 0, Filled(shape, element, value))


def _copy(reader: Reader, op: Operation) -> None:
    source, target = op.operands[0], op.operands[1]
    array, (shape, element) = reader.array(source, op), reader.shaped(target, op)
    if array.element != element or array.shape != shape:
        raise NotLoops(
            op,
            f"the operation copies {source.type} to {target.type}, which differ in shape or type: "
            f"reshape or convert the source first",
        )
    reader.define(op, 0, array)


def _memref_copy(reader: Reader, op: Operation) -> None:
    source, target = op.operands
    reader.write(target, reader.array(source, op), op)


def _permute(reader: Reader, op: Operation, permutation: Iterable[int]) -> None:
    shape, element = reader.shaped(op.operands[1], op)
    source = reader.array(op.operands[0], op)
    reader.define(op, 0, Transposed(shape, element, source, tuple(permutation)))


def _transpose(reader: Reader, op: linalg.ops.TransposeOp) -> None:
    _permute(reader, op, map(int, op.permutation.get_values()))


def _broadcast(reader: Reader, op: linalg.ops.BroadcastOp) -> None:
    new, old = op.dimensions.get_values(), count()
    rank = len(reader.shaped(op.init, op)[0])
    _permute(reader, op, (-1 if axis in new else next(old) for axis in range(rank)))


# Operations that only name elements


def _nothing(reader: Reader, op: Operation) -> None:
    """Accepts an operation that computes no array."""


def _empty(reader: Reader, op: Operation) -> None:
    shape, element = reader.shaped(op.results[0], op)
    reader.arrays[op.results[0]] = Unwritten(shape, element, op)


def _constant(reader: Reader, op: arith.ConstantOp) -> None:
    if isinstance(op.result.type, TensorType | MemRefType):
        shape, element = reader.shaped(op.result, op)
        if not isinstance(op.value, DenseIntOrFPElementsAttr):
            raise NotLoops(op, f"the constant {op.value} is not a tensor of numbers")
        reader.arrays[op.result] = Literal(shape, element, op.value, op)


def _load(reader: Reader, op: Operation) -> None:
    reader.loaded[op] = reader.array(op.operands[0], op)


def _splat(reader: Reader, op: Operation) -> None:
    shape, element = reader.shaped(op.results[0], op)
    reader.arrays[op.results[0]] = Filled(shape, element, op.operands[0])


def _same(reader: Reader, op: Operation) -> None:
    if isinstance(op.results[0].type, MemRefType) and isinstance(op.operands[0].type, MemRefType):
        reader.views[op.results[0]] = _View(op.operands[0], lambda a: a, lambda a, new: new)
    else:
        reader.arrays[op.results[0]] = reader.array(op.operands[0], op)


def _reshape(reader: Reader, op: Operation) -> None:
    source, result = op.operands[0], op.results[0]
    shape, element = reader.shaped(result, op)
    old, _ = reader.shaped(source, op)
    if isinstance(result.type, MemRefType):
        reader.views[result] = _View(
            source,
            lambda a: Reshaped(shape, element, a),
            lambda a, new: Reshaped(old, element, new),
        )
    else:
        reader.arrays[result] = Reshaped(shape, element, reader.array(source, op))


def _static(op: Any, name: str) -> Shape:
    values = tuple(int(v) for v in getattr(op, name).get_values())
    if DYNAMIC_INDEX in values:
        raise NotLoops(op, f"{name.removeprefix('static_')} are dynamic: make them static")
    return values


def _places(reader: Reader, op: Any) -> tuple[Shape, Shape, Shape]:
    """Returns a slice's offsets, sizes and strides: numbers, or expressions of tensor sizes."""
    return (
        _numbers(reader, op, "offsets"),
        _numbers(reader, op, "sizes"),
        _static(op, "static_strides"),
    )


def _numbers(reader: Reader, op: Any, name: str) -> Shape:
    sizes = [reader.size(s) for s in listed_sizes(getattr(op, f"static_{name}"), getattr(op, name))]
    for size in sizes:
        for dimension in size.extents if is_dynamic(size) else ():
            if isinstance(dimension.value.type, IndexType) and not is_given(dimension.value):
                raise NotLoops(op, f"{name} are computed at run time: make them static")
    return tuple(sizes)


def _slice(reader: Reader, op: Operation) -> None:
    source, result = op.operands[0], op.results[0]
    offsets, sizes, strides = _places(reader, op)
    shape, element = reader.shaped(result, op)

    def read(array: Array) -> Array:
        part = Sliced(sizes, element, array, offsets, strides)
        return part if shape == sizes else Reshaped(shape, element, part)

    def write(array: Array, new: Array) -> Array:
        part = new if shape == sizes else Reshaped(sizes, element, new)
        return Patched(array.shape, element, array, part, offsets, strides)

    if isinstance(result.type, MemRefType):
        reader.views[result] = _View(source, read, write)
    else:
        reader.arrays[result] = read(reader.array(source, op))


def _insert_slice(reader: Reader, op: Operation) -> None:
    offsets, sizes, strides = _places(reader, op)
    part, base = (reader.array(value, op) for value in op.operands[:2])
    if part.shape != sizes:
        part = Reshaped(sizes, part.element, part)
    result = Patched(base.shape, base.element, base, part, offsets, strides)
    reader.arrays[op.results[0]] = result


def _concat(reader: Reader, op: tensor.ConcatOp) -> None:
    axis = op.dim.value.data
    shape, element = reader.shaped(op.result, op)
    result: Array = Unwritten(shape, element, op)
    start = 0
    for value in op.operands:
        part = reader.array(value, op)
        offsets = tuple(start if i == axis else 0 for i in range(len(shape)))
        result = Patched(shape, element, result, part, offsets, (1,) * len(shape))
        start += part.shape[axis]
    reader.arrays[op.result] = result


def _pad(reader: Reader, op: tensor.PadOp) -> None:
    low, high = _numbers(reader, op, "low"), _numbers(reader, op, "high")
    block = op.region.block
    last = block.last_op
    if last is None or any(arg.first_use for arg in block.args) or len(list(block.ops)) > 1:
        raise NotLoops(op, "the padding value depends on the index: use a constant value")
    shape, element = reader.shaped(op.result, op)
    source = reader.array(op.source, op)
    if any(surely_below(size, 0) for size in (*low, *high)):
        raise NotLoops(op, "the padding is negative: slice the tensor instead")
    reader.arrays[op.result] = Padded(shape, element, source, low, last.operands[0])


def _padded_view(reader: Reader, op: PaddedViewOp) -> None:
    shape, element = reader.shaped(op.result, op)
    low = tuple(int(v) for v in op.low.get_values())

    def write(array: Array, new: Array) -> Array:
        raise NotLoops(op, "a padded view cannot be written: write to its source")

    reader.views[op.result] = _View(
        op.memref, lambda a: Padded(shape, element, a, low, None), write
    )


HANDLERS: dict[type[Operation], Callable[[Reader, Any], None]] = {
    linalg.ops.FillOp: _fill,
    linalg.ops.CopyOp: _copy,
    linalg.ops.ReduceOp: _reduce,
    linalg.ops.TransposeOp: _transpose,
    linalg.ops.BroadcastOp: _broadcast,
    arith.ConstantOp: _constant,
    tensor.EmptyOp: _empty,
    memref.AllocOp: _empty,
    memref.AllocaOp: _empty,
    bufferization.AllocTensorOp: _empty,
    memref.DeallocOp: _nothing,
    memref.CopyOp: _memref_copy,
    memref.CastOp: _same,
    memref.MemorySpaceCastOp: _same,
    tensor.CastOp: _same,
    tensor.SplatOp: _splat,
    tensor.CollapseShapeOp: _reshape,
    tensor.ExpandShapeOp: _reshape,
    tensor.ReshapeOp: _reshape,
    memref.CollapseShapeOp: _reshape,
    memref.ExpandShapeOp: _reshape,
    tensor.ExtractSliceOp: _slice,
    memref.SubviewOp: _slice,
    tensor.InsertSliceOp: _insert_slice,
    tensor.ConcatOp: _concat,
    tensor.PadOp: _pad,
    PaddedViewOp: _padded_view,
    tensor.ExtractOp: _load,
    memref.LoadOp: _load,
    tensor.DimOp: _nothing,
    memref.DimOp: _nothing,
    YieldOp: _nothing,
}
"""Maps an operation class to its handler. `structured` handles other structured operations."""
