"""
Converts a dispatch without a contraction to a kernel body on buffers. Operations that only move
elements become views and copies.

    tensor.insert_slice %part into %whole      linalg.copy %whole to %r
                                        ->     %v = memref.subview %r; memref.copy %part to %v

The views and copies move no elements at run time: `loops-to-invocations` reads through them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, bufferization, linalg, memref, tensor
from xdsl.dialects.builtin import IndexType, MemRefType, StridedLayoutAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.schedule import SCHEDULE, CollectiveOp, DispatchOp, memref_of
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic, least, static
from xdsl_spirv.passes import NotPossible
from xdsl_spirv.passes.analysis.contraction import Contraction, pads_with_zeros
from xdsl_spirv.passes.analysis.loops_arrays import Result
from xdsl_spirv.passes.analysis.loops_reader import results_of_collective
from xdsl_spirv.passes.analysis.sizes import (
    extent,
    extents,
    is_size_op,
    kept_dimensions,
    listed_sizes,
    number,
)
from xdsl_spirv.passes.kernel.kernel_body import KernelBody, buffer_type, is_for_shapes
from xdsl_spirv.passes.schedule.kinds import KernelPlan


class LoopsBody(KernelBody):
    """
    The region of a kernel that computes elements by loops (see `KernelPlan.has_loops`).

    Raises `NotPossible` for an operation that cannot be converted to buffers.
    """

    def __init__(self, dispatch: DispatchOp, contraction: Contraction | None = None):
        block = dispatch.body.block
        self.updated = {block.args[operand] for operand in dispatch.updates.values()}
        """
        Operands that are updated in place, so that elements outside of the update need no copy.
        """
        super().__init__(dispatch, contraction)
        for op in self.block.ops:
            if isinstance(op, CollectiveOp) and SCHEDULE in dispatch.attributes:
                op.attributes[SCHEDULE] = dispatch.attributes[SCHEDULE]

    def grid_of(self, plan: KernelPlan) -> tuple[Size, Size, Size]:
        """Returns the number of workgroups with work, at most as many as the schedule has."""
        count = plan.busy_workgroups(self._read_results)
        if not is_dynamic(count):
            return plan.grid
        origins = {argument: value for (value, _), argument in self._arguments.items()}
        origins |= zip(self.results, self.dispatch.yielded, strict=True)
        known = {e: _size_of(origins[e.value], e.dimension) for e in count.extents}
        most, y, z = static(plan.grid)
        return least(count.replaced(known), most), y, z

    def _read_results(self) -> Sequence[Result]:
        code = next(op for op in self.block.ops if isinstance(op, CollectiveOp))
        return results_of_collective(code.body.block)[1]

    def _convert(self, op: Operation) -> None:
        match op:
            case _ if is_size_op(op) and is_for_shapes(op):
                pass
            case tensor.CollapseShapeOp() | tensor.ExpandShapeOp():
                self._reshaped(op)
            case tensor.CastOp():
                self._define(op.results[0], self._of(op.source))
            case tensor.ExtractSliceOp():
                self._extracted(op)
            case tensor.InsertSliceOp():
                self._inserted(op)
            case tensor.ConcatOp():
                self._joined(op)
            case tensor.PadOp() if not pads_with_zeros(op) or op.result in self.dispatch.yielded:
                self._surrounded(op)
            case tensor.ExtractOp():
                indices = [self._of(index) for index in op.indices]
                load = memref.LoadOp.get(self._of(op.tensor), indices)
                self.ops.append(load)
                self._memory[op.result] = load.res
            case bufferization.AllocTensorOp():
                pass
            case LinalgStructuredOperation():
                for value in captured_by(op):
                    self._memory[value] = self._of(value)
                self._structured(op)
                _load_elements(self.ops[-1])
            case _ if not op.regions and op.operands and _is_scalar(op):
                self._computed(op)
            case _:
                super()._convert(op)

    def _of(self, value: SSAValue, role: str = "") -> SSAValue:
        if isinstance(value.owner, tensor.EmptyOp | bufferization.AllocTensorOp):
            # An empty tensor can only be read for its shape, like the window of a pooling.
            return self._place(value)
        return super()._of(value, role)

    def _define(self, result: SSAValue, memory: SSAValue) -> None:
        """Makes a result a view of memory, or a copy if the dispatch yields the result."""
        if result in self.dispatch.yielded:
            self._copy(memory, self._place(result))
        else:
            self._memory[result] = memory

    def _copy(self, source: SSAValue, target: SSAValue) -> None:
        self.ops.append(memref.CopyOp(source, target))

    def _computed(self, op: Operation) -> None:
        """Copies an operation on scalars that is outside of all loops."""
        copy = op.clone(value_mapper={v: self._of(v) for v in op.operands})
        self.ops.append(copy)
        self._memory |= zip(op.results, copy.results, strict=True)

    def _reshaped(self, op: tensor.CollapseShapeOp | tensor.ExpandShapeOp) -> None:
        source, expands = self._of(op.operands[0]), isinstance(op, tensor.ExpandShapeOp)
        kind = memref.ExpandShapeOp if expands else memref.CollapseShapeOp
        reshape = kind.create(
            operands=[source, *(self._sizes_of(op.result) if expands else ())],
            result_types=[buffer_type(op.result.type, memref_of(source).memory_space)],
            properties=op.properties,
        )
        self.ops.append(reshape)
        self._define(op.results[0], reshape.results[0])

    def _subview(
        self,
        memory: SSAValue,
        offsets: Sequence[Size],
        sizes: Sequence[Size],
        strides: Sequence[int],
        shape: Sequence[Size] | None = None,
    ) -> SSAValue:
        source = memref_of(memory)
        starts, counts = (
            [self._number(number) if is_dynamic(number) else number for number in numbers]
            for numbers in (offsets, sizes)
        )
        whole = memref.SubviewOp.infer_result_type(source, starts, counts, strides)
        steps = whole.get_strides()
        assert steps is not None
        kept = kept_dimensions(sizes, sizes if shape is None else shape)
        layout = StridedLayoutAttr([steps[axis] for axis in kept], whole.get_offset())
        left = [whole.get_shape()[axis] for axis in kept]
        type = MemRefType(source.element_type, left, layout, source.memory_space)
        view = memref.SubviewOp.get(memory, starts, counts, strides, type)
        self.ops.append(view)
        return view.result

    def _extracted(self, op: tensor.ExtractSliceOp) -> None:
        shape = extents(op.result)
        part = self._subview(self._of(op.source), *_places(op), shape)
        self._define(op.result, part)

    def _inserted(self, op: tensor.InsertSliceOp) -> None:
        place = self._place(op.result)
        if not isinstance(op.dest.owner, tensor.EmptyOp) and op.dest not in self.updated:
            self._copy(self._of(op.dest), place)
        source = self._of(op.source)
        self._copy(source, self._subview(place, *_places(op), extents(op.source)))

    def _joined(self, op: tensor.ConcatOp) -> None:
        place, axis, start = self._place(op.result), op.dim.value.data, 0
        for value in op.inputs:
            source = self._of(value)
            sizes = extents(value)
            offsets = [start if dimension == axis else 0 for dimension in range(len(sizes))]
            self._copy(source, self._subview(place, offsets, sizes, [1] * len(sizes)))
            start += sizes[axis]

    def _surrounded(self, op: tensor.PadOp) -> None:
        """Emits a padding: fills the result and copies the operand into it."""
        last = op.region.block.last_op
        if last is None or any(arg.first_use for arg in op.region.block.args):
            raise NotPossible(op, "the padding value depends on the index: use a constant value")
        value = last.operands[0]
        if isinstance(value.owner, arith.ConstantOp) and value not in self._memory:
            self._write_like(value.owner, [], [value.type])
        place, source = self._place(op.result), self._of(op.source)
        self.ops.append(linalg.ops.FillOp([self._of(value)], [place], []))
        sizes = extents(op.source)
        low = listed_sizes(op.static_low, op.low)
        self._copy(source, self._subview(place, low, sizes, [1] * len(sizes)))


def _size_of(value: SSAValue, dimension: int) -> Size:
    """Returns the size of a tensor's dimension, or the value of an index."""
    return number(value) if isinstance(value.type, IndexType) else extent(value, dimension)


def _is_scalar(op: Operation) -> bool:
    values = (*op.operands, *op.results)
    return bool(op.results) and not any(hasattr(value.type, "get_shape") for value in values)


def _places(op: tensor.ExtractSliceOp | tensor.InsertSliceOp):
    if op.strides:
        raise NotPossible(op, "the slice has dynamic strides: make them static")
    strides = [int(v) for v in op.static_strides.get_values()]
    return (
        listed_sizes(op.static_offsets, op.offsets),
        listed_sizes(op.static_sizes, op.sizes),
        strides,
    )


def captured_by(op: Operation) -> list[SSAValue]:
    """Lists the tensors from outside that a body reads by `tensor.extract`."""
    return [
        inner.operands[0]
        for inner in op.walk()
        if isinstance(inner, tensor.ExtractOp) and not op.is_ancestor(inner.operands[0].owner)
    ]


def _load_elements(op: Operation) -> None:
    for inner in [nested for nested in op.walk() if isinstance(nested, tensor.ExtractOp)]:
        source, *indices = inner.operands
        Rewriter.replace_op(inner, memref.LoadOp.get(source, indices))
