"""Writes `linalg` and `tensor` operations before an operation that they replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    TensorType,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes.analysis.contraction import element_type
from xdsl_spirv.passes.analysis.sizes import empty_of


class Code:
    """Writes operations before another one, at its source location."""

    def __init__(self, op: Operation):
        self.op = op
        self.build = Builder(InsertPoint.before(op))

    def insert(self, op: Operation) -> SSAValue:
        op.location = self.op.location
        return self.build.insert(op).results[0]

    def empty(self, sizes: Sequence[Size], element: Attribute) -> SSAValue:
        before, empty = empty_of(sizes, element)
        for op in before:
            self.insert(op)
        return self.insert(empty)

    def fill(self, sizes: Sequence[Size], element: AnyFloat, number: float) -> SSAValue:
        """Builds a tensor filled with one number."""
        constant = self.insert(arith.ConstantOp(FloatAttr(number, element)))
        room = self.empty(sizes, element)
        return self.insert(linalg.ops.FillOp([constant], [room], [room.type]))

    def matrix(self, rows: Sequence[Sequence[float]], element: AnyFloat) -> SSAValue:
        """Builds a constant of two dimensions."""
        type = TensorType(element, [len(rows), len(rows[0])])
        numbers = np.array(rows).ravel().tolist()
        return self.insert(arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type, numbers)))

    def cast(self, value: SSAValue, type: TensorType) -> SSAValue:
        """Casts the value to the static sizes of another type."""
        return value if value.type == type else self.insert(tensor.CastOp(value, type))

    def generic(
        self,
        inputs: Sequence[SSAValue],
        out: SSAValue,
        maps: Sequence[AffineMap],
        body: Callable[[Builder, Sequence[SSAValue]], Operation | SSAValue],
    ) -> SSAValue:
        """Builds a generic; loops that the output does not name are reductions."""
        assert isinstance(out.type, TensorType)
        block = Block(arg_types=[element_type(value) for value in (*inputs, out)])
        result = body(Builder(InsertPoint.at_end(block)), block.args)
        block.add_op(linalg.ops.YieldOp(result))
        kinds = [
            IteratorTypeAttr.parallel() if AffineDimExpr(n) in maps[-1].results
            else IteratorTypeAttr.reduction()
            for n in range(maps[-1].num_dims)
        ]  # fmt: skip
        attributes = ArrayAttr(map(AffineMapAttr, maps)), ArrayAttr(kinds)
        return self.insert(
            linalg.ops.GenericOp(inputs, [out], Region(block), *attributes, [out.type])
        )


def multiply_add(b: Builder, v: Sequence[SSAValue]) -> Operation:
    """Computes out + a * b in the output's type."""
    wide = v[2].type
    a, x = (n if n.type == wide else b.insert(arith.ExtFOp(n, wide)).result for n in v[:2])
    return b.insert(arith.AddfOp(b.insert(arith.MulfOp(a, x)).result, v[2]))
