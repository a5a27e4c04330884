"""Defines the semantics of comparison, classification and selection, all elementwise."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import VectorType

from xdsl_spirv.dialects.spirv import logic as ops
from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, value, value_table


def is_normal(a: Array) -> Array:
    """True for numbers other than 0, subnormals, infinities and NaN."""
    return np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).smallest_normal)


value_table(
    {
        ops.IEqualOp: np.equal,
        ops.INotEqualOp: np.not_equal,
        ops.UGreaterThanOp: ew.on_unsigned(np.greater),
        ops.SGreaterThanOp: np.greater,
        ops.UGreaterThanEqualOp: ew.on_unsigned(np.greater_equal),
        ops.SGreaterThanEqualOp: np.greater_equal,
        ops.ULessThanOp: ew.on_unsigned(np.less),
        ops.SLessThanOp: np.less,
        ops.ULessThanEqualOp: ew.on_unsigned(np.less_equal),
        ops.SLessThanEqualOp: np.less_equal,
        ops.FOrdEqualOp: np.equal,
        ops.FUnordEqualOp: ew.or_unordered(np.equal),
        ops.FOrdNotEqualOp: ew.ordered_not_equal,
        ops.FUnordNotEqualOp: np.not_equal,
        ops.FOrdLessThanOp: np.less,
        ops.FUnordLessThanOp: ew.or_unordered(np.less),
        ops.FOrdGreaterThanOp: np.greater,
        ops.FUnordGreaterThanOp: ew.or_unordered(np.greater),
        ops.FOrdLessThanEqualOp: np.less_equal,
        ops.FUnordLessThanEqualOp: ew.or_unordered(np.less_equal),
        ops.FOrdGreaterThanEqualOp: np.greater_equal,
        ops.FUnordGreaterThanEqualOp: ew.or_unordered(np.greater_equal),
        ops.OrderedOp: lambda a, b: ~ew.unordered(a, b),
        ops.UnorderedOp: ew.unordered,
        ops.IsNanOp: np.isnan,
        ops.IsInfOp: np.isinf,
        ops.IsFiniteOp: np.isfinite,
        ops.IsNormalOp: is_normal,
        ops.SignBitSetOp: np.signbit,
        ops.LogicalEqualOp: np.equal,
        ops.LogicalNotEqualOp: np.not_equal,
        ops.LogicalOrOp: np.logical_or,
        ops.LogicalAndOp: np.logical_and,
        ops.LogicalNotOp: np.logical_not,
        ops.AnyOp: lambda a: a.any(axis=-1),
        ops.AllOp: lambda a: a.all(axis=-1),
    }
)


@value(ops.SelectOp)
def select(op: ops.SelectOp, context: Context) -> Function:
    """Selects Object 1 where the condition holds, otherwise Object 2."""
    return ew.select(context.form(op.result.type), isinstance(op.condition.type, VectorType))
