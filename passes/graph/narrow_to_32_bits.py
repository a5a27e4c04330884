"""
Computes 64-bit numbers in 32 bits where that changes no value.

    %i = linalg.index 1                        %i = linalg.index 1
    %w = arith.index_cast %i : i64       ->    %n = arith.index_cast %i : i32
    %s = arith.addi %w, %c1 : i64              %s = arith.addi %n, %c1 : i32       [1, 80]

Importers compute indices, zero points and counts in i64, and some constants in f64. Devices
compute 64-bit numbers slowly, or not at all. Integers are narrowed if their interval
(`value_ranges`) proves that they fit; other integers keep 64 bits, and become pairs of words if
the target lacks 64-bit integers (`spirv-int64-to-words`). `narrow_floats` has the rule for f64;
the pass refuses remaining f64 if the target lacks f64. Arguments and results of the function keep
their types, because callers rely on them. Tensors that must have the same type form a class,
which is narrowed if all of its values fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
    f64,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.disjoint_set import DisjointSet

from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.linalg_code import make_generic, maps_of, yields_of
from xdsl_spirv.passes.analysis.ranges import element
from xdsl_spirv.passes.analysis.value_ranges import JOINS, MOVES, ValueRanges
from xdsl_spirv.passes.analysis.values import erase_unused_ops
from xdsl_spirv.passes.graph.narrow_bodies import (
    NARROW,
    BodyNarrower,
    Integers,
    fits,
    is_wide,
    narrow_constant,
    tensor_of,
    touches,
)
from xdsl_spirv.passes.graph.narrow_floats import Floats
from xdsl_spirv.targets import Target, load

FLOAT_FEATURE = "float64"
"""Name of the target feature for computing in f64."""


@dataclass(frozen=True)
class NarrowTo32BitsPass(ModulePass):
    """
    Rewrites 64-bit values that provably fit in 32 bits, and refuses f64 if the target lacks f64.
    """

    name = "narrow-to-32-bits"

    target: str = ""
    """
    A device name or a target file. The pass refuses remaining f64 if the target lacks f64. If
    empty, the pass refuses nothing.
    """

    addresses: bool = True
    """Assumes that every index lies inside its tensor, as ONNX and MLIR both require."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = load(self.target) if self.target else None
        for function in op.ops:
            if not isinstance(function, FuncOp) or len(function.body.blocks) != 1:
                continue
            if not any(touches(inner) for inner in function.body.block.ops):
                continue
            _Narrower(function, ValueRanges(function, self.addresses)).write()
            if target is not None and FLOAT_FEATURE not in target.features:
                _refuse_f64(function, target)


def _refuse_f64(function: FuncOp, target: Target) -> None:
    for op in function.body.block.ops:
        unused = op.results and not any(result.uses for result in op.results)
        if unused or isinstance(op, tensor.EmptyOp) or _is_scalar(op):
            continue
        values = [(i, v) for i in op.walk() for v in (*i.operands, *i.results)]
        inner, value = next((p for p in values if element(p[1].type) == f64), (None, None))
        if inner is None:
            continue
        what = "the operation computes in f64, and f32 may give another result"
        if isinstance(value, BlockArgument) and isinstance(value.block.parent_op(), FuncOp):
            what += f" (argument {value.index})"
        inner.location = op.location if inner is not op else inner.location
        remedy = "compute in f32 in the model"
        why = f"{what}, and {target.name} has no {FLOAT_FEATURE}: {remedy}"
        refuse(NarrowTo32BitsPass.name, inner, why)


def _is_scalar(op: Operation) -> bool:
    values = (*op.operands, *op.results)
    return not op.regions and not any(isinstance(v.type, TensorType) for v in values)


class _Narrower:
    def __init__(self, function: FuncOp, ranges: ValueRanges):
        self.function, self.ranges = function, ranges
        self.integers = Integers(ranges)
        self.floats = Floats(function, ranges)
        self._constants: dict[SSAValue, SSAValue] = {}

    def write(self) -> None:
        block = self.function.body.block
        for value in self._tensors():
            self._retype(value)
        for op in list(block.ops):
            if isinstance(op, linalg.ops.GenericOp) and _is_concerned(op):
                self._body(op)
        erase_unused_ops(block, lambda op: isinstance(op, arith.ConstantOp) and is_wide(op.result))

    def decide(self, op: Operation) -> frozenset[Attribute]:
        """Returns the 64-bit types that an operation of a body computes in 32 bits."""
        kinds = {i64} if self.integers.is_narrowed(op) else set[Attribute]()
        return frozenset(kinds | ({f64} if self.floats.is_narrowed(op) else set()))

    # Tensors

    def _tensors(self) -> list[SSAValue]:
        classes = _Classes()
        for argument in self.function.body.block.args:
            classes.keep(argument)
        for op in self.function.body.block.ops:
            _link(op, classes)
        return [
            value
            for members in classes.free()
            if all(self._fits(value) for value in members)
            for value in members
        ]

    def _fits(self, value: SSAValue) -> bool:
        if element(value.type) == f64:
            return self.floats.is_meant
        return fits(self.ranges.written(value))

    def _retype(self, value: SSAValue) -> None:
        """Narrows a tensor and its producer in place, unless the producer is a `linalg.generic`."""
        op = value.owner
        assert isinstance(op, Operation)
        if isinstance(op, linalg.ops.GenericOp):
            return
        type = tensor_of(value.type)
        if isinstance(op, arith.ConstantOp):
            dense = op.value
            assert isinstance(dense, DenseIntOrFPElementsAttr)
            op.properties["value"] = _narrow_elements(dense, type)
        if isinstance(op, linalg.ops.FillOp):
            fill = linalg.ops.FillOp([self.constant(op.inputs[0])], op.outputs, [type])
            fill.location = op.location
            Rewriter.replace_op(op, fill)
            return
        if isinstance(op, tensor.PadOp):
            (padding,) = yields_of(op.region.block)
            op.region.block.last_op.operands[0] = self.constant(padding)  # pyright: ignore
        Rewriter.replace_value_with_new_type(value, type)

    def constant(self, value: SSAValue) -> SSAValue:
        """Returns a scalar constant in 32 bits, inserted after the 64-bit constant."""
        if value not in self._constants:
            owner = value.owner
            assert isinstance(owner, arith.ConstantOp)
            narrow = narrow_constant(owner)
            narrow.result.name_hint = value.name_hint
            Rewriter.insert_op(narrow, InsertPoint.after(owner))
            self._constants[value] = narrow.result
        return self._constants[value]

    # Loops

    def _body(self, op: linalg.ops.GenericOp) -> None:
        inputs = [self._scalar(value) for value in op.inputs]
        types = [element(value.type) for value in (*inputs, *op.outputs)]
        block = Block(arg_types=types)
        for old, new in zip(op.body.block.args, block.args, strict=True):
            new.name_hint = old.name_hint
        results = types[len(inputs) :]
        BodyNarrower(op.body.block, block, self.decide, self.constant).write(results)
        kinds = op.get_iterator_types()
        Rewriter.replace_op(op, make_generic(inputs, op.outputs, maps_of(op), block, kinds, op))

    def _scalar(self, value: SSAValue) -> SSAValue:
        if not is_wide(value) or not isinstance(value.owner, arith.ConstantOp):
            return value
        narrow = self.floats.is_meant or self.floats.is_exact(value)
        if value.type == i64:
            narrow = fits(self.ranges.of(value))
        return self.constant(value) if narrow else value


def _is_concerned(op: linalg.ops.GenericOp) -> bool:
    body = op.body.block
    types = [element(value.type) for value in op.operands]
    return types != list(body.arg_types) or touches(op)


class _Classes:
    """Classes of tensors that must have the same element type."""

    def __init__(self) -> None:
        self._tensors = DisjointSet[SSAValue](())
        self._known: dict[SSAValue, None] = {}
        self._kept: set[SSAValue] = set()

    def link(self, values: Iterable[SSAValue]) -> None:
        wide = [v for v in values if isinstance(v.type, TensorType) and element(v.type) in NARROW]
        for value in wide:
            if value not in self._known:
                self._tensors.add(value)
                self._known[value] = None
            self._tensors.union_left(wide[0], value)

    def keep(self, value: SSAValue) -> None:
        """Fixes the type of a tensor, because code outside of the function defines it."""
        self.link((value,))
        self._kept.add(value)

    def free(self) -> Iterable[list[SSAValue]]:
        """Returns the classes in which no tensor has a fixed type."""
        members: dict[SSAValue, list[SSAValue]] = {}
        for value in self._known:
            members.setdefault(self._tensors.find(value), []).append(value)
        return [values for values in members.values() if self._kept.isdisjoint(values)]


def _link(op: Operation, classes: _Classes) -> None:
    """Links tensors whose types an operation requires to be equal."""
    match op:
        case linalg.ops.GenericOp():
            for output, result in zip(op.outputs, op.results, strict=False):
                classes.link((output, result))
        case tensor.PadOp() if _is_number(op.region.block.last_op):
            classes.link((op.source, op.result))
        case linalg.ops.FillOp() if isinstance(op.inputs[0].owner, arith.ConstantOp):
            classes.link((*op.outputs, *op.results))
        case arith.ConstantOp() if isinstance(op.value, DenseIntOrFPElementsAttr):
            classes.link(op.results)
        case tensor.EmptyOp():
            classes.link(op.results)
        case _ if isinstance(op, MOVES + JOINS):
            classes.link((*op.operands, *op.results))
        case _:
            values = {v for inner in op.walk() for v in (*inner.operands, *inner.results)}
            for value in values:
                classes.keep(value)


def _is_number(op: Operation | None) -> bool:
    return op is not None and isinstance(op.operands[0].owner, arith.ConstantOp)


def _narrow_elements(
    dense: DenseIntOrFPElementsAttr, type: TensorType[Attribute]
) -> DenseIntOrFPElementsAttr:
    wide, narrow = ("<f8", "<f4") if element(dense.get_type()) == f64 else ("<i8", "<i4")
    array = np.frombuffer(dense.data.data, wide).astype(narrow)
    return DenseIntOrFPElementsAttr(type, BytesAttr(array.tobytes()))  # pyright: ignore
