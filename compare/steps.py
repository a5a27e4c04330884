"""
Computes the quantization step of a result: its change if one rounding goes the other way.

A rounding may be off by 1. Casts, moves, selections and clamps preserve the step, sums add steps,
and a product with a constant (a model's scale) scales the step. After any other operation the step
is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith, linalg, math, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr
from xdsl.dialects.func import ReturnOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, Operation, SSAValue

PASSED_ON = (
    *(arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp, arith.SelectOp),
    *(arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp, arith.SIToFPOp, arith.UIToFPOp),
    *(arith.FPToSIOp, arith.FPToUIOp, arith.ExtFOp, arith.TruncFOp, arith.ExtSIOp, arith.ExtUIOp),
    *(arith.TruncIOp, linalg.ops.YieldOp),
    *(tensor.CastOp, tensor.CollapseShapeOp, tensor.ExpandShapeOp, tensor.ReshapeOp),
    *(tensor.ExtractSliceOp, tensor.InsertSliceOp, tensor.ConcatOp),
    *(linalg.ops.TransposeOp, linalg.ops.BroadcastOp, linalg.ops.CopyOp),
)
"""Operations whose result has the largest step of their operands."""

ADDING = (arith.AddfOp, arith.SubfOp, arith.AddiOp, arith.SubiOp)


def result_steps(module: Operation) -> tuple[float, ...]:
    """Returns the quantization step of each result of the module's function, 0 if unknown."""
    returned = next((op for op in module.walk() if isinstance(op, ReturnOp)), None)
    steps: dict[SSAValue, float] = {}
    return tuple(_step(value, steps) for value in (returned.operands if returned else ()))


def _step(value: SSAValue, steps: dict[SSAValue, float]) -> float:
    """Returns a value's quantization step. Not recursive, because chains may be long."""
    pending = [value]
    while pending:
        current = pending[-1]
        op = current.owner
        if current in steps or isinstance(op, Block):
            steps.setdefault(current, 0.0)
            pending.pop()
            continue
        missing = [v for v in op.operands if v not in steps]
        if missing:
            pending += missing
            continue
        known = [steps[operand] for operand in op.operands]
        for result in op.results:
            steps[result] = _pass_step(op, known, steps)
    return steps[value]


def _pass_step(op: Operation, known: Sequence[float], steps: dict[SSAValue, float]) -> float:
    if isinstance(op, math.RoundEvenOp):
        return 1.0
    if isinstance(op, ADDING):
        return sum(known)
    if isinstance(op, arith.MulfOp | arith.DivfOp):
        factors = [_magnitude(operand) for operand in op.operands]
        if isinstance(op, arith.DivfOp):
            return known[0] / factors[1] if factors[1] else 0.0
        return max(known[0] * (factors[1] or 0.0), known[1] * (factors[0] or 0.0))
    if isinstance(op, PASSED_ON):
        return max(known, default=0.0)
    if not isinstance(op, LinalgStructuredOperation):
        return 0.0
    block = op.body.block
    steps.update(zip(block.args, known, strict=True))
    for inner in block.ops:
        step = _pass_step(inner, [steps.get(v, 0.0) for v in inner.operands], steps)
        steps.update(dict.fromkeys(inner.results, step))
        if isinstance(inner, linalg.ops.YieldOp):
            return step
    return 0.0


def _magnitude(value: SSAValue) -> float | None:
    owner = value.owner
    if isinstance(owner, Block):
        op: Any = owner.parent_op()
        inside = isinstance(op, LinalgStructuredOperation)
        return _magnitude(op.operands[owner.args.index(value)]) if inside else None
    if isinstance(owner, arith.ConstantOp):
        match owner.value:
            case FloatAttr():
                return abs(owner.value.value.data)
            case DenseIntOrFPElementsAttr():
                return float(np.abs(list(owner.value.get_values())).max(initial=0.0))
            case _:
                return None
    moved = isinstance(owner, PASSED_ON) and len(owner.operands) == 1
    return _magnitude(owner.operands[0]) if moved else None
