"""
Finds f64 operations that may be computed in f32.

*Exact*: if f32 (or f16, bf16) values are moved, selected, negated or rounded to integers, f32
represents the results. The sum, difference or product of two such values, rounded to f32, equals
the f32 result: f64 has more than 2 * 24 + 2 bits, so rounding twice equals rounding once. These
operations are always narrowed.

*Intended*: if the model has no f64 (`program.floats` is `f32` or less), the importer added the f64,
for example for a LayerNorm of PyTorch or the slope of a PRelu. A computation that starts from f32
and ends in f32 is then narrowed as a whole. Each operation then rounds at 2^-24 instead of 2^-53,
like the model's own operators. Conversions to integers are left out, because a small error near a
rounding boundary changes the integer.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects import arith, linalg, math, tensor
from xdsl.dialects.builtin import FloatAttr, StringAttr, f32, f64, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from xdsl_spirv.dialects.program import FLOATS
from xdsl_spirv.passes.analysis.ranges import Range
from xdsl_spirv.passes.analysis.value_ranges import ValueRanges
from xdsl_spirv.passes.graph.narrow_bodies import takes_narrow

WHOLE = Range(-(1 << 24), 1 << 24)
"""The range in which f32 represents every integer exactly."""

KEEPING = (
    arith.SelectOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.MaxnumfOp,
    arith.MinnumfOp,
    arith.NegfOp,
    math.AbsFOp,
    math.FloorOp,
    math.CeilOp,
    math.RoundEvenOp,
    math.TruncOp,
    math.CopySignOp,
)
"""Operations whose result is an f32 value if all operands are f32 values."""

ROUNDED_ONCE = (arith.AddfOp, arith.SubfOp, arith.MulfOp)
"""Operations whose f64 result, rounded to f32, equals the f32 result."""

TO_FLOAT = (arith.SIToFPOp, arith.UIToFPOp)
TO_INTEGER = (arith.FPToSIOp, arith.FPToUIOp)


class Floats:
    """Decides which f64 operations of a function are computed in f32."""

    def __init__(self, function: FuncOp, ranges: ValueRanges):
        self.ranges = ranges
        self._exact: dict[SSAValue, bool] = {}
        self.is_meant = meant_narrow(function) and all(
            self._may_be_meant(op) for op in function.walk()
        )

    def is_narrowed(self, op: Operation) -> bool:
        """True if an operation is computed in f32."""
        values = [v for v in (*op.operands, *op.results) if v.type == f64]
        if not values or op.regions:
            return False
        if isinstance(op, tensor.ExtractOp):
            return takes_narrow(op)
        if self.is_meant:
            return True
        if isinstance(op, arith.TruncFOp) and op.result.type == f32:
            return True
        if isinstance(op, ROUNDED_ONCE):
            return all(map(self.is_exact, op.operands)) and all(
                isinstance(use.operation, arith.TruncFOp) and use.operation.result.type == f32
                for use in op.results[0].uses
            )
        if isinstance(op, arith.CmpfOp | arith.TruncFOp) or isinstance(op, TO_INTEGER):
            return all(map(self.is_exact, op.operands))
        return all(map(self.is_exact, values))

    def is_exact(self, value: SSAValue) -> bool:
        """True if f32 can represent every value that an f64 value may take."""
        if value.type != f64 or isinstance(value, BlockArgument):
            return value.type != f64
        if value not in self._exact:
            self._exact[value] = self._is_exact(value.owner)  # pyright: ignore
        return self._exact[value]

    def _is_exact(self, op: Operation) -> bool:
        match op:
            case arith.ExtFOp():
                return True
            case arith.ConstantOp(value=FloatAttr() as number):
                held = number.value.data
                with np.errstate(over="ignore"):
                    return not held == held or float(np.float32(held)) == held
            case tensor.ExtractOp():
                return takes_narrow(op)
            case _ if isinstance(op, TO_FLOAT):
                return self.ranges.of(op.operands[0]).within(WHOLE.low, WHOLE.high)
            case _ if isinstance(op, KEEPING):
                return all(map(self.is_exact, op.operands))
            case _:
                return False

    def _may_be_meant(self, op: Operation) -> bool:
        """
        True if the operation has no f64, or if computing it in f32 is as accurate as the model's
        own operators.
        """
        if not any(v.type == f64 for v in (*op.operands, *op.results)):
            return True
        if isinstance(op, TO_FLOAT):
            return self.ranges.of(op.operands[0]).within(WHOLE.low, WHOLE.high)
        if isinstance(op, TO_INTEGER):
            return self.is_exact(op.operands[0])
        kinds = (linalg.ops.YieldOp, tensor.ExtractOp, tensor.YieldOp, linalg.ops.FillOp)
        if isinstance(op, (*kinds, linalg.ops.GenericOp)):
            return True
        if any(v.type == i64 for v in (*op.operands, *op.results)) or op.regions:
            return False
        return op.name.startswith(("arith.", "math.")) and not isinstance(op, arith.BitcastOp)


def meant_narrow(function: FuncOp) -> bool:
    """True if the front end recorded that the model has no f64."""
    noted = function.attributes.get(FLOATS)
    return isinstance(noted, StringAttr) and noted.data != "f64"
