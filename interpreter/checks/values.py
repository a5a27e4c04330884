"""
Defines the general check of an instruction, and the checks of instructions that only move values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import (
    arithmetic,
    composite,
    control_flow,
    cooperative_matrix_2,
    hints,
    logic,
    replicated,
)
from xdsl_spirv.dialects.spirv import bit as bits
from xdsl_spirv.dialects.spirv import dot_product as dots
from xdsl_spirv.dialects.spirv import memory as memory_ops
from xdsl_spirv.dialects.spirv.dot_product import DotSignedness
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks.compiler import (
    GENERAL,
    Checked,
    CheckedCode,
    CheckedCompiler,
    checked,
)
from xdsl_spirv.interpreter.checks.scopes import full_scope, uniform
from xdsl_spirv.interpreter.checks.shadow import (
    Shadow,
    by_lane,
    merge_parts,
    normal,
    octets,
    propagation,
    shadow_form,
    spread,
    whole,
)
from xdsl_spirv.interpreter.checks.sources import sources_of
from xdsl_spirv.interpreter.forms import CooperativeMatrix, Opaque, Plain
from xdsl_spirv.interpreter.forms import spread as spread_mask
from xdsl_spirv.interpreter.numbers import I64, Array, unsigned
from xdsl_spirv.interpreter.semantics import Function
from xdsl_spirv.interpreter.spirv.control_flow import compile_function
from xdsl_spirv.interpreter.spirv.dot_product import components


def _action(op: Operation, compiler: CheckedCompiler, function: Function) -> Checked:
    """
    Checks an instruction whose function needs the batch. Parts of the result are marked as
    undefined where operands are undefined.
    """
    propagate: list[Any] = []

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        result = function(batch, *values)
        if not op.results or all(shadow is None for shadow in shadows):
            return result, None
        if not propagate:
            forms = [compiler.context.form(operand.type) for operand in op.operands]
            propagate.append(propagation(forms, compiler.context.form(op.results[0].type)))
        return result, normal(propagate[0](shadows))

    return call


def _value(op: Operation, compiler: CheckedCompiler, function: Function) -> Checked:
    context = compiler.context
    forms = [context.form(operand.type) for operand in op.operands]
    result_form = context.form(op.results[0].type)
    propagate = propagation(forms, result_form)
    if type(op) in MOVES:
        propagate = _move_shadow(op, compiler, function)
    absorb = ABSORBING.get(type(op))
    add = _sources(op, compiler)
    matrix = next((f for f in (result_form, *forms) if isinstance(f, CooperativeMatrix)), None)
    matrix = matrix if compiler.checker.checks.rules else None
    scalar = _uniform_scalar(op)
    checker = compiler.checker

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        if matrix is not None:
            if batch.mask is not checker.existing:
                full_scope(checker, op, matrix)
            if scalar is not None:
                uniform(checker, op, "CM-27", scalar[0], values[scalar[1]], matrix)
        result = function(*values)
        shadow = None
        for one in shadows:
            if one is not None:
                shadow = propagate(shadows)
                if absorb is not None and shadow is not None:
                    shadow = normal(np.where(absorb(values, shadows), np.uint8(0), shadow))
                break
        if add is not None:
            shadow = add(batch, values, shadow)
        return result, shadow

    return call


def _uniform_scalar(op: Operation) -> tuple[str, int] | None:
    if isinstance(op, arithmetic.MatrixTimesScalarOp):
        return "the scalar", 1
    return ("the condition", 0) if isinstance(op, logic.SelectOp) else None


GENERAL.update(action=_action, value=_value)


# Instructions whose result becomes undefined for some values of their operands.


def _sources(op: Operation, compiler: CheckedCompiler) -> Any:
    context, checker = compiler.context, compiler.checker
    form = context.form(op.results[0].type)
    tests = [(source, source.make(op, context)) for source in sources_of(op)]
    tests = [(source, test) for source, test in tests if test is not None]
    if not tests or not checker.checks.undefined:
        return None
    names = [f"operand {n + 1}" for n in range(len(op.operands))]

    def add(batch: Batch, values: Sequence[Any], shadow: Shadow) -> Shadow:
        for source, test in tests:
            undefined = test(*values)
            if not undefined.any():
                continue
            if batch.mask is not None:
                undefined = undefined & spread_mask(batch.mask, form)
                if not undefined.any():
                    continue
            lanes = by_lane(undefined, form)
            number = checker.origin(op, source.rule, source.message)
            checker.example(number, lanes, dict(zip(names, values, strict=True)))
            own = np.where(undefined, np.uint8(number), np.uint8(0))
            if isinstance(form, Plain) and form.shape:
                own = np.broadcast_to(own, own.shape[:3] + form.shape)
            shadow = own if shadow is None else np.maximum(shadow, own)
        return shadow

    return add


# Instructions where one operand's value determines the result.


def _zero_operand(values: Sequence[Any], shadows: Sequence[Any]) -> Any:
    """
    Returns a mask of the operands that are a defined 0 (or false). The conjunction is then 0, even
    if the other operand is undefined.
    """
    return _decided_operand(values, shadows, 0)


def _one_operand(values: Sequence[Any], shadows: Sequence[Any]) -> Any:
    """
    Returns a mask of the operands that are a defined -1 (or true). The disjunction is then -1, even
    if the other operand is undefined.
    """
    return _decided_operand(values, shadows, -1)


def _decided_operand(values: Sequence[Any], shadows: Sequence[Any], number: int) -> Any:
    decided: Any = False
    for value, shadow in zip(values, shadows, strict=True):
        wanted = value if number and value.dtype == np.bool_ else value == number
        decided = decided | (wanted if shadow is None else wanted & (shadow == 0))
    return decided


ABSORBING: dict[type[Operation], Any] = {
    logic.LogicalAndOp: _zero_operand,
    bits.BitwiseAndOp: _zero_operand,
    logic.LogicalOrOp: _one_operand,
    bits.BitwiseOrOp: _one_operand,
}


# Instructions that only move parts are run a second time, on the shadows.

MOVES: dict[type[Operation], tuple[int, ...]] = {
    composite.VectorShuffleOp: (0, 1),
    composite.CompositeExtractOp: (0,),
    composite.CompositeInsertOp: (0, 1),
    composite.CompositeConstructOp: (),
    composite.VectorExtractDynamicOp: (0,),
    composite.CopyLogicalOp: (0,),
    memory_ops.CopyObjectOp: (0,),
    arithmetic.TransposeOp: (0,),
    cooperative_matrix_2.CooperativeMatrixTransposeOp: (0,),
    hints.ExpectOp: (0,),
}
"""
Maps an instruction to the indices of the operands whose parts it moves. Empty means all operands.
"""


def _move_shadow(op: Operation, compiler: CheckedCompiler, function: Function) -> Any:
    context = compiler.context
    forms = [shadow_form(context.form(operand.type)) for operand in op.operands]

    def propagate(shadows: Sequence[Shadow]) -> Shadow:
        return normal(function(*[whole(s, f) for s, f in zip(shadows, forms, strict=True)]))

    return propagate


def moved_action(op: Operation, compiler: CheckedCompiler, function: Function) -> Checked:
    """
    Checks an instruction that only moves parts of its operands. The marks of undefined parts move
    with them.
    """
    context = compiler.context
    forms = [shadow_form(context.form(operand.type)) for operand in op.operands]

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        result = function(batch, *values)
        if all(shadow is None for shadow in shadows):
            return result, None
        full = [whole(s, f) for s, f in zip(shadows, forms, strict=True)]
        return result, normal(octets(function(batch, *full)))

    return call


for _op in (composite.CompositeExtractOp, composite.CompositeInsertOp):
    checked(_op)(moved_action)


@checked(composite.CompositeConstructOp, replicated.CompositeConstructReplicateOp)
def construct(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks that the constituent of a cooperative matrix is uniform over its scope (CM-09)."""
    form = compiler.context.form(op.result.type)
    moved = moved_action(op, compiler, function)
    checker = compiler.checker
    if not isinstance(form, CooperativeMatrix) or not checker.checks.rules:
        return moved

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        full_scope(checker, op, form)
        uniform(checker, op, "CM-09", "the constituent", values[0], form)
        return moved(batch, values, shadows)

    return call


@checked(composite.VectorExtractDynamicOp, composite.VectorInsertDynamicOp)
def dynamic(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks that a dynamic component index is within the vector."""
    count = op.vector.type.get_shape()[0]
    place = list(op.operands).index(op.index)
    checker = compiler.checker
    inner = _value(op, compiler, function)

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        index = values[place]
        outside = unsigned(index) >= count
        checker.find_active(
            "BOUNDS-03",
            op,
            f"a component outside a vector of {count}",
            outside,
            batch.mask,
            values={"component": index},
            remedy="keep the index below the vector's length",
        )
        values = [*values]
        values[place] = np.clip(index, 0, count - 1)
        return inner(batch, values, shadows)

    return call


@checked(logic.SelectOp)
def select(op: logic.SelectOp, compiler: CheckedCompiler, function: Function) -> Checked:
    """Returns the chosen operand and its undefined parts. The other operand may be undefined."""
    context = compiler.context
    condition_form, form = context.form(op.condition.type), context.form(op.result.type)
    shadows_form = shadow_form(form)
    general_check = _value(op, compiler, function)
    if isinstance(form, Opaque):
        function = np.where

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        result, _ = general_check(batch, values, [None, None, None])
        if all(shadow is None for shadow in shadows):
            return result, None
        parts: list[Any] = []
        if shadows[1] is not None or shadows[2] is not None:
            chosen = [whole(shadow, shadows_form) for shadow in shadows[1:]]
            parts.append(function(values[0], *chosen))
        if shadows[0] is not None:
            same = isinstance(condition_form, Plain) and condition_form.shape
            parts.append(
                shadows[0] if same else spread(by_lane(shadows[0], condition_form), shadows_form)
            )
        return result, normal(merge_parts(parts))

    return call


@checked(hints.FreezeOp)
def freeze(op: hints.FreezeOp, compiler: CheckedCompiler, function: Function) -> Checked:
    """Marks the result as defined."""
    return lambda batch, values, shadows: (values[0], None)


@checked(hints.AssumeTrueOp)
def assume(op: hints.AssumeTrueOp, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks that an assumed condition is defined and true (UNDEF-12)."""
    checker = compiler.checker

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        checker.find_undefined(op, "an assumption", shadows[0], batch.mask)
        checker.find_active(
            "UNDEF-12",
            op,
            "the condition of an assumption does not hold",
            ~values[0],
            batch.mask,
            values={"condition": values[0]},
            remedy="assume only conditions that always hold",
        )
        return None, None

    return call


@checked(control_flow.FunctionCallOp)
def call_function(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Calls a function, with the masks of undefined parts of its arguments and its result."""
    context, name = compiler.context, op.callee.string_value()

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        code = context.code(name, compile_function)
        assert isinstance(code, CheckedCode)
        return code.call(batch, values, shadows)

    return call


@checked(dots.SDotAccSatOp, dots.UDotAccSatOp, dots.SUDotAccSatOp)
def dot_accumulate(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks that the sum of products does not overflow before the final addition (DOT-17)."""
    checker = compiler.checker
    inner = _value(op, compiler, function)
    exact = _exact_dot(op, compiler)
    bits_of_result = compiler.context.plain(op.result.type).dtype.itemsize * 8
    sign = op.SIGNEDNESS != DotSignedness.UNSIGNED
    high = float(2 ** (bits_of_result - sign))
    low = -high if sign else 0.0

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        total = exact(values[0], values[1])
        checker.find_active(
            "DOT-17",
            op,
            f"the sum of products overflows {bits_of_result} bits before the final addition",
            (total >= high) | (total < low),
            batch.mask,
            values={"sum of products": total},
            remedy="use a wider result type",
        )
        return inner(batch, values, shadows)

    largest_sum = _largest_sum(op, compiler)
    return call if checker.checks.rules and largest_sum >= high else inner


def _component_form(op: Any, compiler: CheckedCompiler) -> tuple[int, int]:
    form = compiler.context.plain(op.vector_1.type)
    return (form.dtype.itemsize * 8, form.shape[0]) if form.shape else (8, 4)


def _largest_sum(op: Any, compiler: CheckedCompiler) -> float:
    width, count = _component_form(op, compiler)
    return float(count * 4**width)


def _exact_dot(op: Any, compiler: CheckedCompiler) -> Function:
    """
    Returns a function that computes the sum without overflow. The check compares this sum with the
    range of the result's type.
    """
    forms = [compiler.context.plain(v.type) for v in (op.vector_1, op.vector_2)]
    signs = (op.SIGNEDNESS != DotSignedness.UNSIGNED, op.SIGNEDNESS == DotSignedness.SIGNED)
    wide = I64 if _component_form(op, compiler)[0] < 32 else np.dtype(np.float64)

    def call(a: Array, b: Array) -> Array:
        first, second = (
            components(vector, form, sign)
            for vector, form, sign in zip((a, b), forms, signs, strict=True)
        )
        products = [x.astype(wide) * y.astype(wide) for x, y in zip(first, second, strict=True)]
        return sum(products[1:], products[0])

    return call
