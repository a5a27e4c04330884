"""
Moves scalar computations of a host function into the loops that use the scalars.

    %s = tensor.extract %t[] : tensor<f32>       linalg.generic ins(%x, %t) maps (d0), ()
    %h = arith.mulf %s, %two                ->     %h = arith.mulf %s, %two
    linalg.generic ins(%x, %h)                     ...

The host only launches kernels and computes no values. An input that is a scale or a zero point is
a tensor of one element, and the divisor of a mean follows from the sizes of arguments. Scalar
arguments and results of a function become tensors of rank 0. Recomputing such a scalar for every
element is cheap. An importer's assertions about such scalars are dropped, because the host does
not check them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import cast

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation, NamedOperation
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule.symbolic_sizes import surely_below
from xdsl_spirv.passes.analysis.linalg_code import (
    Code,
    make_generic,
    maps_of,
    merge_dimensions,
    number_of_type,
    tensor_type,
)
from xdsl_spirv.passes.analysis.pointwise import as_generic, generalize
from xdsl_spirv.passes.analysis.sizes import SizeCode, extent, is_given, listed_sizes, resolve_sizes
from xdsl_spirv.passes.analysis.sizes import number as size_of
from xdsl_spirv.passes.analysis.values import erase_unused_ops, operands_of
from xdsl_spirv.passes.graph.computable import refuse_types
from xdsl_spirv.passes.graph.grouping import is_computed


@dataclass(frozen=True)
class ScalarsIntoLoopsPass(ModulePass):
    """Moves scalar computations of host functions into the loops that read the scalars."""

    name = "scalars-into-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            refuse_types(function, self.name)
            _take_in_tensors(function)
            _give_in_tensors(function)
            for block in function.body.blocks:
                move_scalars(block)


def _take_in_tensors(function: FuncOp) -> None:
    """Replaces scalar arguments by tensors of rank 0; sizes (`index`) stay scalars."""
    block = function.body.block
    for argument in block.args:
        if not isinstance(argument.type, AnyFloat | IntegerType):
            continue
        inside = tensor.ExtractOp(argument, [], argument.type)
        argument.replace_all_uses_with(inside.result)
        inside.operands[0] = argument
        Rewriter.replace_value_with_new_type(argument, TensorType(argument.type, []))
        Rewriter.insert_op(inside, InsertPoint.at_start(block))
    function.update_function_type()


def _give_in_tensors(function: FuncOp) -> None:
    """Replaces scalar results by tensors of rank 0."""
    last = function.body.block.last_op
    assert last is not None
    code = Code(last)
    for place, value in enumerate(last.operands):
        if isinstance(value.type, AnyFloat | IntegerType):
            last.operands[place] = code.fill_with(value, code.empty([], value.type))
    function.update_function_type()


def move_scalars(block: Block) -> None:
    """Moves the computation of scalars from a host function's block into the loops using them."""
    resolve_sizes(block)
    for op in list(block.ops):
        if isinstance(op, linalg.ops.FillOp | tensor.SplatOp):
            op = _fill_to_loops(op) or op
        elif isinstance(op, tensor.PadOp):
            op = _pad_to_loops(op) or op
        elif isinstance(op, NamedOperation) and any(map(is_computed, op.inputs)):
            op = generalize(op) or as_generic(op)
        if isinstance(op, linalg.ops.GenericOp):
            scalars = [value for value in operands_of(op) if is_computed(value)]
            if scalars and all(_is_movable(value) for value in scalars):
                _move(op, scalars)
    for op in reversed(list(block.ops)):
        if op.name == "cf.assert" and _is_movable(op.operands[0]):
            Rewriter.erase_op(op)
    erase_unused_ops(block, lambda op: isinstance(op, LinalgStructuredOperation) or _is_scalar(op))


def _is_scalar(op: Operation) -> bool:
    scalar = bool(op.results) and not isinstance(op.results[0].type, TensorType)
    return scalar and not op.regions and op.name.startswith(("arith.", "math.", "tensor."))


def _is_movable(value: SSAValue) -> bool:
    """True if only arithmetic computes a scalar, from elements of tensors, sizes and constants."""
    if is_given(value):
        return True
    owner = value.owner
    if isinstance(owner, arith.ConstantOp):
        return True
    if isinstance(owner, tensor.DimOp):
        return isinstance(owner.source, BlockArgument) and _is_movable(owner.index)
    if isinstance(owner, tensor.ExtractOp):
        return all(map(_is_movable, owner.indices))
    if not isinstance(owner, Operation) or owner.regions:
        return False
    return owner.name.startswith(("arith.", "math.")) and all(map(_is_movable, owner.operands))


def _fill_to_loops(op: linalg.ops.FillOp | tensor.SplatOp) -> linalg.ops.GenericOp | None:
    value, type = op.operands[0], op.results[0].type if op.results else None
    if not isinstance(type, TensorType) or not is_computed(value) or not _is_movable(value):
        return None
    if value.type != type.element_type:
        return None
    code, rank = Code(op), type.get_num_dims()
    maps = AffineMap(rank, 0, ()), AffineMap.identity(rank)
    result = code.generic([value], code.empty_like(op.results[0]), maps, lambda b, v: v[0])
    Rewriter.replace_op(op, [], [result])
    return cast(linalg.ops.GenericOp, result.owner)


def _pad_to_loops(op: tensor.PadOp) -> linalg.ops.GenericOp | None:
    """Rewrites a padding with a computed scalar as a `linalg.generic` on a padding with zeros."""
    last = op.region.block.last_op
    value = last.operands[0] if last is not None else None
    if value is None or not is_computed(value) or not _is_movable(value):
        return None
    type = tensor_type(op.result)
    sizes, low = tensor_type(op.source).get_shape(), listed_sizes(op.static_low, op.low)
    element = type.element_type
    outside = not isinstance(value.owner, Operation) or value.owner.parent_op() is not op
    high = listed_sizes(op.static_high, op.high)
    if any(surely_below(size, 0) for size in (*low, *high)) or not outside:
        return None
    if not isinstance(element, IntegerType | AnyFloat):
        return None
    zero = arith.ConstantOp(number_of_type(0, element))
    around = Block([tensor.YieldOp(zero.result)], arg_types=[IndexType()] * len(sizes))
    static = op.static_low, op.static_high
    padded = tensor.PadOp(op.source, op.low, op.high, Region(around), *static, type)
    body = Block(arg_types=[element, value.type, element])
    build = Builder(InsertPoint.at_end(body))
    inside: SSAValue | None = None
    code = SizeCode(Builder(InsertPoint.before(op)).insert)
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        end = before + extent(op.source, axis)
        bounds = [("sge", before)] * (before != 0) + [("slt", end)] * (after != 0)
        place = build.insert(linalg.ops.IndexOp(axis)).result if bounds else None
        for predicate, bound in bounds:
            assert place is not None
            here = build.insert(arith.CmpiOp(place, code.value(bound), predicate)).result
            inside = here if inside is None else build.insert(arith.AndIOp(inside, here)).result
    chosen: SSAValue = body.args[0]
    if inside is not None:
        chosen = build.insert(arith.SelectOp(inside, chosen, body.args[1])).result
    build.insert(linalg.ops.YieldOp(chosen))
    rank = type.get_num_dims()
    identity = AffineMap.identity(rank)
    maps = identity, AffineMap(rank, 0, ()), identity
    empty = Code(op).empty_like(op.result)
    generic = make_generic([padded.result, value], empty, maps, body)
    padded.location = generic.location = op.location
    Rewriter.insert_op([zero, padded], InsertPoint.before(op))
    Rewriter.replace_op(op, generic)
    return generic


@dataclass
class _Body:
    """
    Copies the computation of host scalars into a loop's body, before the operation `first`.
    `tensors` maps tensors of one element to the body's new arguments.
    """

    op: linalg.ops.GenericOp
    block: Block
    first: Operation
    tensors: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def value(self, scalar: SSAValue) -> SSAValue:
        if scalar not in self.values:
            self.values[scalar] = self._made(scalar)
        return self.values[scalar]

    def _made(self, scalar: SSAValue) -> SSAValue:
        if is_given(scalar):
            return scalar
        owner = scalar.owner
        assert isinstance(owner, Operation)
        if isinstance(owner, arith.ConstantOp):
            return scalar
        if isinstance(owner, tensor.ExtractOp) and (whole := self._alone(owner)) is not None:
            if whole not in self.tensors:
                self.tensors[whole] = self.block.insert_arg(
                    scalar.type, len(self.block.args) - len(self.op.outputs)
                )
            return self.tensors[whole]
        given = {value: self.value(value) for value in owner.operands if is_computed(value)}
        copy = owner.clone(value_mapper=given)
        self.block.insert_op_before(copy, self.first)
        return copy.results[owner.results.index(scalar)]

    def _alone(self, op: tensor.ExtractOp) -> SSAValue | None:
        """Returns the source of an extraction as a tensor of rank 0; None for several elements."""
        source, type = op.tensor, tensor_type(op.tensor)
        if prod(type.get_shape()) != 1 or any(size_of(index) != 0 for index in op.indices):
            return None
        if not type.get_num_dims():
            return source
        collapse = merge_dimensions(source, (), ())
        Rewriter.insert_op(collapse, InsertPoint.before(self.op))
        return collapse.results[0]


def _move(op: linalg.ops.GenericOp, scalars: Sequence[SSAValue]) -> None:
    region = op.body.clone()
    block = region.block
    first = block.first_op
    assert first is not None
    body = _Body(op, block, first)
    moved = {scalar: body.value(scalar) for scalar in scalars}
    for inner in block.walk():
        for index, value in enumerate(inner.operands):
            if value in moved:
                inner.operands[index] = moved[value]
    maps = maps_of(op)
    kept: list[int] = []
    for number, value in enumerate(op.inputs):
        if value in moved:
            block.args[number].replace_all_uses_with(moved[value])
        else:
            kept.append(number)
    for number in reversed(range(len(op.inputs))):
        if number not in kept:
            block.erase_arg(block.args[number])
    loops = maps[0].num_dims
    reads = [maps[n] for n in kept] + [AffineMap(loops, 0, ())] * len(body.tensors)
    inputs = [*(op.inputs[n] for n in kept), *body.tensors]
    maps = [*reads, *maps[len(op.inputs) :]]
    new = make_generic(inputs, op.outputs, maps, region, op.get_iterator_types())
    new.location = op.location
    Rewriter.replace_op(op, new)
