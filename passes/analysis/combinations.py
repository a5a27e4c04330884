"""
Recognizes reductions that can be split into partial reductions.

The body of such a reduction is `accumulated <op> new`, and the operation is associative and
commutative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.passes.analysis.linalg_code import yields_of
from xdsl_spirv.passes.analysis.loops_arrays import Loops

UNROLLED = 16
"""Largest number of a row's elements that an invocation holds in registers."""

UNROLLED_BESIDE = 49
"""Largest number of unrolled reduction steps if an invocation computes neighbouring results."""


Neutral: TypeAlias = tuple[Callable[[int], int], float]
"""A neutral element: (function that returns the integer for a width in bits, float)."""

ZERO: Neutral = (lambda bits: 0, 0.0)
ONE: Neutral = (lambda bits: 1, 1.0)
ALL_ONES: Neutral = (lambda bits: -1, nan)
LOWEST: Neutral = (lambda bits: -(1 << bits - 1), -inf)
HIGHEST: Neutral = (lambda bits: (1 << bits - 1) - 1, inf)

NEUTRAL: dict[type[Operation], Neutral] = {
    **dict.fromkeys((arith.AddfOp, arith.AddiOp, arith.OrIOp, arith.XOrIOp, arith.MaxUIOp), ZERO),
    **dict.fromkeys((arith.MulfOp, arith.MuliOp), ONE),
    **dict.fromkeys((arith.AndIOp, arith.MinUIOp), ALL_ONES),
    **dict.fromkeys((arith.MaximumfOp, arith.MaxnumfOp, arith.MaxSIOp), LOWEST),
    **dict.fromkeys((arith.MinimumfOp, arith.MinnumfOp, arith.MinSIOp), HIGHEST),
}
"""Maps each associative and commutative operation to its neutral elements."""


def neutral_of(kind: type[Operation], type: Attribute) -> float:
    """Returns the neutral element of an associative and commutative operation on a type."""
    whole, real = NEUTRAL[kind]
    return whole(type.width.data) if isinstance(type, IntegerType) else real


@dataclass(frozen=True)
class Combination:
    """An output whose element is `accumulated <op> new`."""

    op: Operation
    new: SSAValue
    type: Attribute

    @property
    def kind(self) -> type[Operation]:
        return type(self.op)

    @property
    def neutral(self) -> float:
        """The neutral element of `<op>`."""
        return neutral_of(self.kind, self.type)


def combinations_of(loops: Loops) -> list[Combination] | None:
    """Returns how each output accumulates new values, or None if a reduction cannot be split."""
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
