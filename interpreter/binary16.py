"""
Decides which binary16 values of a kernel are stored as binary32 while the kernel runs.

A binary16 value that only arithmetic reads, directly or through a loop, is stored as binary32. It
is rounded to a binary16 number after every instruction. This avoids a conversion before and after
each arithmetic instruction. `WidenedValues` decides for each value from its uses, and inserts
conversions at the other uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from xdsl.ir import Block, Operation, SSAValue, Use

from xdsl_spirv.dialects.spirv import arithmetic, control_flow, conversion, exits, logic
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import Plain
from xdsl_spirv.interpreter.numbers import F16, Array, narrow, round_to_half, widener
from xdsl_spirv.interpreter.semantics import Function, semantics_of

Convert: TypeAlias = Callable[[Array], Array]

COMPUTED: dict[type[Operation], Function] = {
    arithmetic.FAddOp: np.add,
    arithmetic.FSubOp: np.subtract,
    arithmetic.FMulOp: np.multiply,
    arithmetic.FDivOp: np.divide,
}
"""Instructions on binary16 that are computed in binary32 and then rounded to binary16."""

EXACT = (
    arithmetic.FNegateOp,
    logic.SelectOp,
    logic.FOrdEqualOp,
    logic.FOrdLessThanOp,
    logic.FOrdGreaterThanOp,
    logic.FOrdLessThanEqualOp,
    logic.FOrdGreaterThanEqualOp,
)
"""Instructions whose result does not depend on the width of their binary16 operands."""


def _to_float32(op: Operation) -> bool:
    return isinstance(op, conversion.FConvertOp) and op.result.type.name == "f32"


class WidenedValues:
    """
    Decides which binary16 values of a function are stored as binary32 (none unless `enabled`).

    A value is widened if arithmetic reads it, and if no other instruction of its block reads it.
    Readers in other blocks, such as a store after a loop, get the value narrowed to binary16.
    """

    def __init__(self, context: Context, enabled: bool = True):
        self.context = context
        self.enabled = enabled
        self._held: dict[SSAValue, bool] = {}

    def held(self, value: SSAValue) -> bool:
        """True if an f16 value is stored as binary32 at run time."""
        if not self.enabled:
            return False
        held = self._held.get(value)
        if held is None:
            held = self._held[value] = self._is_half(value) and self._decide(value)
        return held

    def _is_half(self, value: SSAValue) -> bool:
        if str(value.type.name) not in ("f16", "vector"):
            return False
        form = self.context.form(value.type)
        return isinstance(form, Plain) and form.dtype == F16

    def _decide(self, value: SSAValue) -> bool:
        owner = value.owner
        if isinstance(owner, Block):
            if owner.prev_block is None and not isinstance(owner.parent_op(), _CONSTRUCTS):
                return False
        elif not isinstance(owner, (*COMPUTED, *EXACT, conversion.FConvertOp, *_CONSTRUCTS)):
            if semantics_of(owner).kind not in ("value", "action") or len(owner.results) != 1:
                return False
        home = owner if isinstance(owner, Block) else owner.parent
        return self._read_by_arithmetic(value, home, set())

    def _read_by_arithmetic(self, value: SSAValue, home: Block | None, seen: set[SSAValue]) -> bool:
        seen.add(value)
        some = False
        for use in value.uses:
            user = use.operation
            if isinstance(user, (*COMPUTED, *EXACT)) or _to_float32(user):
                some = True
            elif isinstance(user, _PASSING):
                onward = [target for target in _targets(use) if target not in seen]
                some |= any([self._read_by_arithmetic(t, None, seen) for t in onward])
            elif user.parent is home:
                return False
        return some

    def moves(
        self, sources: Sequence[SSAValue], targets: Sequence[SSAValue]
    ) -> list[Convert | None]:
        """
        Returns one entry for each pair of a source and its target: the conversion between their
        stored widths, or None if the widths are equal.
        """
        return [
            self._converter(self.held(source), self.held(target))
            for source, target in zip(sources, targets, strict=True)
        ]

    def narrowing(self, value: SSAValue) -> Convert | None:
        """Returns the conversion of a value from binary32 to f16, or None if it is not needed."""
        return self._converter(self.held(value), False)

    @staticmethod
    def _converter(held: bool, wanted: bool) -> Convert | None:
        if held == wanted:
            return None
        return widener(F16) if wanted else narrow

    def adapt(self, op: Operation, function: Function, first: int) -> Function:
        """
        Wraps the function of an operation so that it accepts operands that are stored as binary32.
        `first` is the number of arguments before the operands.
        """
        computed = COMPUTED.get(type(op))
        result = self.held(op.results[0]) if len(op.results) == 1 else False
        if computed is not None and self._is_half(op.results[0]) and self.enabled:
            return self._computed(op, computed, result)
        operands = [self.held(operand) for operand in op.operands]
        if not result and not any(operands):
            return function
        if isinstance(op, conversion.FConvertOp):
            if _to_float32(op) and operands[0]:
                return lambda value: value
            if result and op.operand.type.name == "f32":
                return round_to_half
        wanted = isinstance(op, EXACT) and (result or any(operands))
        converts = [
            self._converter(held, wanted and self._is_half(operand))
            for held, operand in zip(operands, op.operands, strict=True)
        ]
        inner = _with_operands(function, [None] * first + converts)
        if len(op.results) != 1 or not self._is_half(op.results[0]) or wanted == result:
            return inner
        last = widener(F16) if result else narrow
        return lambda *arguments: last(inner(*arguments))

    def _computed(self, op: Operation, computed: Function, result: bool) -> Function:
        finish = round_to_half if result else narrow
        a, b = (self.held(operand) for operand in op.operands)
        widen = widener(F16)
        if a and b:
            return lambda a, b: finish(computed(a, b))
        if a:
            return lambda a, b: finish(computed(a, widen(b)))
        if b:
            return lambda a, b: finish(computed(widen(a), b))
        return lambda a, b: finish(computed(widen(a), widen(b)))


_CONSTRUCTS = (control_flow.LoopOp, control_flow.SelectionOp)
_PASSING = (
    control_flow.BranchOp,
    control_flow.BranchConditionalOp,
    control_flow.SwitchOp,
    control_flow.MergeOp,
    exits.BreakOp,
    exits.ContinueOp,
)


def _targets(use: Use) -> list[SSAValue]:
    op, number = use.operation, use.index
    match op:
        case control_flow.BranchOp():
            return [op.target.args[number]]
        case control_flow.BranchConditionalOp() if number:
            passed = [*op.true_target.args, *op.false_target.args]
            return [passed[number - 1]]
        case control_flow.MergeOp():
            construct = op.parent_op()
            return [] if construct is None else [construct.results[number]]
        case exits.ExitOp() if op.target is not None:
            return [op.target.args[number]]
        case _:
            return []


def _with_operands(function: Function, converts: Sequence[Convert | None]) -> Function:
    if not any(converts):
        return function

    def call(*arguments: Array) -> Array:
        return function(
            *[
                argument if convert is None else convert(argument)
                for argument, convert in zip(arguments, converts, strict=True)
            ]
        )

    return call
