"""
Converts the body of a dispatch to a kernel body on buffers and chooses the memory of each tensor.

A result of the dispatch is computed in its kernel argument. A tensor that an operation updates
keeps its memory. Every other tensor becomes a `memref.alloc` in `schedule.collective`. Each
operand of a contraction has its own argument, even if both are the same tensor, because the kernel
reads A and B in tiles of different sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import arith, gpu, linalg, memref, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import (
    SCHEDULE,
    SUMMED,
    AttentionOp,
    CollectiveOp,
    DispatchOp,
    PackedViewOp,
    PackOp,
    PaddedViewOp,
    SelectedViewOp,
    YieldOp,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic
from xdsl_spirv.passes import NotPossible, copy_with
from xdsl_spirv.passes.analysis.contraction import Contraction, canonical_form, padding_of
from xdsl_spirv.passes.analysis.epilogue import row_sum_of
from xdsl_spirv.passes.analysis.sizes import SizeCode, extent, is_given, is_size_op, number
from xdsl_spirv.passes.analysis.values import is_zero, operands_of
from xdsl_spirv.passes.schedule.kinds import KernelPlan

STORAGE_BUFFER = spv.StorageClassAttr(spv.StorageClass.StorageBuffer)
READ_THROUGH = (tensor.PadOp, linalg.ops.GenericOp, PackedViewOp, SelectedViewOp)
"""
Operations that may lie between an operand of a contraction and the kernel argument that holds its
memory.
"""


def buffer_type(type: Attribute, space: Attribute | None = None) -> MemRefType:
    """Returns the row-major memref type for a tensor type."""
    assert isa(type, TensorType)
    if space is None:
        return MemRefType(type.element_type, type.get_shape())
    return MemRefType(type.element_type, type.get_shape(), memory_space=space)


class KernelBody:
    """
    The region of a dispatch's kernel. `inputs` are the host's values for the input arguments.

    Raises `NotPossible` for an operation that cannot be converted to buffers.
    """

    def __init__(self, dispatch: DispatchOp, contraction: Contraction | None):
        self.dispatch = dispatch
        self.contraction = contraction
        self.block = Block()
        self.region = Region(self.block)
        self.inputs: list[SSAValue] = []
        self.numbers: list[SSAValue] = []
        """Host values for the index arguments that follow the results."""
        self.results = [
            self.block.insert_arg(buffer_type(value.type, STORAGE_BUFFER), n)
            for n, value in enumerate(dispatch.outputs)
        ]
        for n, result in enumerate(self.results):
            result.name_hint = f"d{n or ''}"
        self.ops: list[Operation] = []
        self._memory: dict[SSAValue, SSAValue] = {}
        self._arguments: dict[tuple[SSAValue, str], SSAValue] = {}
        self._roles: dict[Operation, str] = {}
        root = None if contraction is None else contraction.op
        if contraction is not None:
            self._read_by_root(contraction)
        for op in dispatch.body.block.ops:
            self._root() if op is root else self._convert(op)
        self.block.add_ops([CollectiveOp(self.ops), gpu.ReturnOp([])])

    def grid_of(self, plan: KernelPlan) -> tuple[Size, Size, Size]:
        """Returns the launch's number of workgroups along x, y and z."""
        return plan.grid

    # Arguments

    def _read_by_root(self, contraction: Contraction) -> None:
        """Adds the kernel arguments for A and B, in this order."""
        for value, role in ((contraction.a, "a"), (contraction.b, "b")):
            while not isinstance(value, BlockArgument):
                owner = value.owner
                assert isinstance(owner, Operation)
                if not isinstance(owner, READ_THROUGH):
                    break
                self._roles[owner] = role
                value = owner.operands[0]
            if isinstance(value, BlockArgument):
                self._argument(value, role)

    def _argument(self, value: BlockArgument, role: str) -> SSAValue:
        known = self._arguments.get((value, role))
        if known is not None:
            return known
        given = self.dispatch.inputs[value.index]
        if isinstance(value.type, IndexType):
            argument = self.block.insert_arg(value.type, len(self.block.args))
            argument.name_hint = value.name_hint
            self.numbers.append(given)
        else:
            type = buffer_type(value.type, STORAGE_BUFFER)
            argument = self.block.insert_arg(type, len(self.inputs))
            argument.name_hint = role or value.name_hint
            self.inputs.append(given)
        self._arguments[value, role] = argument
        return argument

    def _given(self, value: SSAValue) -> SSAValue:
        matching = (argument for (known, _), argument in self._arguments.items() if known is value)
        return next(matching, None) or self._of(value)

    # Memory

    def _of(self, value: SSAValue, role: str = "") -> SSAValue:
        if value in self._memory:
            return self._memory[value]
        if isinstance(value, BlockArgument):
            return self._argument(value, role)
        owner = value.owner
        assert isinstance(owner, Operation)
        raise NotPossible(owner, "the operation's result is read before it is written")

    def _place(self, value: SSAValue) -> SSAValue:
        """Returns the memory of an operation's result, which the first call chooses."""
        if value not in self._memory:
            self._memory[value] = self._new_place(value)
        return self._memory[value]

    def _new_place(self, value: SSAValue) -> SSAValue:
        yielded = list(self.dispatch.yielded)
        if value in yielded:
            return self.results[yielded.index(value)]
        uses = list(value.uses)
        op = uses[0].operation if len(uses) == 1 else None
        if isinstance(op, LinalgStructuredOperation) and uses[0].index >= len(op.inputs):
            return self._place(op.results[uses[0].index - len(op.inputs)])
        allocation = memref.AllocOp(self._sizes_of(value), (), buffer_type(value.type))
        allocation.memref.name_hint = value.name_hint
        self.ops.append(allocation)
        return allocation.memref

    def _sizes_of(self, value: SSAValue) -> list[SSAValue]:
        assert isinstance(value.type, TensorType)
        return [
            self._number(extent(value, dimension))
            for dimension, size in enumerate(value.type.get_shape())
            if size == DYNAMIC_INDEX
        ]

    def _number(self, size: Size) -> SSAValue:
        extents = size.extents if is_dynamic(size) else []
        for asked in extents:
            if not isinstance(asked.value, BlockArgument):
                owner = asked.value.owner
                assert isinstance(owner, Operation)
                raise NotPossible(owner, "the size of a result is not known before the kernel runs")
        values = {asked.value: self._given(asked.value) for asked in extents}
        return SizeCode(self.ops.append, values).value(size)

    def _size(self, op: tensor.DimOp) -> None:
        operands = [self._given(op.source), self._of(op.index)]
        dimension = memref.DimOp.create(operands=operands, result_types=[IndexType()])
        self.ops.append(dimension)
        self._memory |= zip(op.results, dimension.results, strict=True)

    # Operations

    def _convert(self, op: Operation) -> None:
        match op:
            case tensor.EmptyOp() | YieldOp():
                pass
            case _ if is_size_op(op) and is_for_shapes(op):
                pass
            case tensor.DimOp():
                self._size(op)
            case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as dense):
                self._splat(op, dense)
            case arith.ConstantOp():
                self._write_like(op, [], [op.result.type])
            case tensor.SplatOp():
                self._fill(self._of(op.input), op.result)
            case PackedViewOp() | SelectedViewOp():
                self._view(op)
            case PackOp() | AttentionOp() if op.results:
                read = [op.source] if isinstance(op, PackOp) else [value for value, _ in op.inputs]
                inputs, place = [self._of(value) for value in read], self._place(op.results[0])
                self._write_like(op, [*inputs, place, *self._numbers(op.numbers)])
            case tensor.PadOp() if padding_of(op) is not None:
                self._padded(op)
            case LinalgStructuredOperation():
                self._structured(op)
            case _:
                raise NotPossible(
                    op, "a kernel cannot contain this operation: it has no form on buffers"
                )

    def _write_like(
        self, op: Operation, operands: Sequence[SSAValue], types: Sequence[Attribute] = ()
    ) -> None:
        """Emits a copy of an operation with other operands and result types."""
        copy = copy_with(op, operands, types)
        self.ops.append(copy)
        self._memory |= zip(op.results, copy.results, strict=False)

    def _splat(self, op: arith.ConstantOp, dense: DenseIntOrFPElementsAttr) -> None:
        number = arith.ConstantOp(next(dense.iter_attrs()))
        self.ops.append(number)
        self._fill(number.result, op.result)

    def _fill(self, number: SSAValue, result: SSAValue) -> None:
        self.ops.append(linalg.ops.FillOp([number], [self._place(result)], []))

    def _padded(self, op: tensor.PadOp) -> None:
        source = self._of(op.source, self._roles.get(op, ""))
        low, high = op.static_low.get_values(), op.static_high.get_values()
        view = PaddedViewOp(source, low, high, padding_of(op) or 0)
        view.result.name_hint = f"{source.name_hint or 'operand'}_padded"
        self.ops.append(view)
        self._memory[op.result] = view.result

    def _view(self, op: PackedViewOp | SelectedViewOp) -> None:
        source, type = self._of(op.source, self._roles.get(op, "")), op.result.type
        if isinstance(op, SelectedViewOp):
            numbers = [self._of(op.numbers)]
        else:
            numbers = self._numbers(op.numbers)
        self._write_like(op, [source, *numbers], [buffer_type(type, STORAGE_BUFFER)])

    def _numbers(self, values: Iterable[SSAValue]) -> list[SSAValue]:
        return [self._number(number(value)) for value in values]

    def _outputs(self, op: LinalgStructuredOperation) -> list[SSAValue]:
        """Returns the results' memory; copies the initial elements if the body reads them."""
        places: list[SSAValue] = []
        read = op.body.block.args[len(op.inputs) :]
        for value, result, argument in zip(op.outputs, op.results, read, strict=True):
            place = self._place(result)
            places.append(place)
            if argument.first_use is None or isinstance(value.owner, tensor.EmptyOp):
                continue
            source = self._of(value)
            if source is not place:
                self.ops.append(linalg.ops.CopyOp([source], [place], []))
        return places

    def _structured(self, op: LinalgStructuredOperation) -> None:
        role = self._roles.get(op, "")
        inputs = [self._of(value, role) for value in op.inputs]
        outputs = self._outputs(op)
        attributes = {key: value for key, value in op.attributes.items() if key != SCHEDULE}
        body = Region()
        asked = {dimension.source: self._given(dimension.source) for dimension in sizes_in(op)}
        asked |= {value: self._given(value) for value in operands_of(op) if is_given(value)}
        op.body.clone_into(body, value_mapper=self._memory | asked)
        if (same := self._summed_operand(op)) is not None:
            attributes[SUMMED] = IntegerAttr(same, i64)
        on_buffers = type(op).create(
            operands=[*inputs, *outputs],
            properties=op.properties,
            attributes=attributes,
            regions=[body],
        )
        for dimension in sizes_in(on_buffers):
            size = memref.DimOp.create(operands=dimension.operands, result_types=[IndexType()])
            Rewriter.replace_op(dimension, size)
        self.ops.append(on_buffers)

    def _summed_operand(self, op: LinalgStructuredOperation) -> int | None:
        """Returns the argument index of A or B if the operation sums rows of A or B."""
        if self.contraction is None or row_sum_of(op) is None:
            return None
        value = op.inputs[0]
        assert isinstance(value, BlockArgument)
        for role in ("a", "b"):
            readers = (self._roles.get(use.operation) for use in value.uses)
            if role in readers or (value, role) in self._arguments:
                argument = self._argument(value, role)
                assert isinstance(argument, BlockArgument)
                return argument.index
        return None

    def _root(self) -> None:
        contraction = self.contraction
        assert contraction is not None
        if not (is_zero(contraction.init) or isinstance(contraction.init.owner, tensor.EmptyOp)):
            raise NotPossible(
                contraction.op,
                "the contraction's initial value is not zero, but a kernel begins its sums with "
                "zero: begin with a linalg.fill of zero, and add the value after the contraction",
            )
        outputs = self._outputs(contraction.op)
        a, b = self._of(contraction.a, "a"), self._of(contraction.b, "b")
        root = canonical_form(contraction, a, b, outputs[0])
        root.attributes[SCHEDULE] = contraction.op.attributes[SCHEDULE]
        self.ops.append(root)


def sizes_in(op: Operation) -> list[tensor.DimOp]:
    """Lists the `tensor.dim` operations in a body."""
    return [inner for inner in op.walk() if isinstance(inner, tensor.DimOp)]


def is_for_shapes(op: Operation) -> bool:
    """True if the operation's result only determines shapes of tensors."""
    uses = [use.operation for result in op.results for use in result.uses]
    return bool(uses) and all(
        isinstance(user, tensor.EmptyOp | AttentionOp) or (is_size_op(user) and is_for_shapes(user))
        for user in uses
    )
