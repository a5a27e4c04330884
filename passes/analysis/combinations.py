"""
Recognizes reductions that can be split into partial reductions.

The body of such a reduction is `accumulated <op> new`, and the operation is associative and
commutative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.passes.analysis.linalg_code import yields_of
from xdsl_spirv.passes.analysis.loops_arrays import Loops

UNROLLED = 16
"""Largest number of a row's elements that an invocation holds in registers."""

UNROLLED_BESIDE = 49
"""Largest number of unrolled reduction steps if an invocation computes neighbouring results."""


def _lowest(type: Attribute) -> Any:
    if isinstance(type, IntegerType):
        return -(1 << type.width.data - 1)
    return -inf


def _highest(type: Attribute) -> Any:
    if isinstance(type, IntegerType):
        return (1 << type.width.data - 1) - 1
    return inf


def _one(type: Attribute) -> Any:
    return 1 if isinstance(type, IntegerType) else 1.0


def _zero(type: Attribute) -> Any:
    return 0 if isinstance(type, IntegerType) else 0.0


def _all_ones(type: Attribute) -> Any:
    return -1


NEUTRAL: dict[type[Operation], Callable[[Attribute], Any]] = {
    arith.AddfOp: _zero,
    arith.AddiOp: _zero,
    arith.MulfOp: _one,
    arith.MuliOp: _one,
    arith.MaximumfOp: _lowest,
    arith.MaxnumfOp: _lowest,
    arith.MinimumfOp: _highest,
    arith.MinnumfOp: _highest,
    arith.MaxSIOp: _lowest,
    arith.MinSIOp: _highest,
    arith.MaxUIOp: _zero,
    arith.MinUIOp: _all_ones,
    arith.AndIOp: _all_ones,
    arith.OrIOp: _zero,
    arith.XOrIOp: _zero,
}
"""Neutral element of each associative and commutative operation, by element type."""


@dataclass(frozen=True)
class Combination:
    """An output whose element is `accumulated <op> new`."""

    op: Operation
    new: SSAValue
    type: Attribute


def combinations_of(loops: Loops) -> list[Combination] | None:
    """Returns the combination of each output; None if a reduction cannot be split."""
    carried = loops.body.args[len(loops.inputs) :]
    combinations: list[Combination] = []
    for argument, value in zip(carried, yields_of(loops.body), strict=True):
        op = value.owner
        if type(op) not in NEUTRAL or argument not in op.operands:  # pyright: ignore
            return None
        assert isinstance(op, Operation)
        new = op.operands[1] if op.operands[0] is argument else op.operands[0]
        if _depends(new, carried, loops) or new is argument:
            return None
        combinations.append(Combination(op, new, value.type))
    return combinations


def _depends(value: SSAValue, carried: Sequence[SSAValue], loops: Loops) -> bool:
    values = {value}
    for op in reversed(list(loops.body.ops)):
        if any(result in values for result in op.results):
            for inner in op.walk():
                values.update(inner.operands)
    return any(argument in values for argument in carried)
