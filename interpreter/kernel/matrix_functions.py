"""Defines the semantics of `schedule.each_element` and `schedule.reduce_rows`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from xdsl_spirv.dialects.schedule import EachElementOp, ReduceRowsOp, YieldOp
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.code import RETURNED, Env
from xdsl_spirv.interpreter.context import Context, Runnable
from xdsl_spirv.interpreter.flow import RETURN, Flow, Leaving
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, action, terminator
from xdsl_spirv.interpreter.spirv.control_flow import compile_function
from xdsl_spirv.interpreter.spirv.cooperative_matrix import matrix_form
from xdsl_spirv.interpreter.spirv.cooperative_matrix_2 import combination, combined, mapped


def _compiled_once(op: Operation, context: Context) -> Callable[[], Runnable]:
    codes: list[Runnable] = []

    def code() -> Runnable:
        if not codes:
            codes.append(compile_function(op, context))
        return codes[0]

    return code


@action(EachElementOp)
def each_element(op: EachElementOp, context: Context) -> Function:
    """Applies the region to every element."""
    form, code = matrix_form(op.matrix.type, context), _compiled_once(op, context)
    kinds = op.body.block.arg_types
    given = [argument.type for argument in op.arguments]
    beside = [taken != type for taken, type in zip(kinds[3:], given, strict=True)]
    places = [context.plain(kind).dtype for kind in kinds[:2]]

    def call(batch: Batch, *operands: Any) -> Array:
        return mapped(code(), batch, form, places, beside, operands)

    return call


@action(ReduceRowsOp)
def reduce_rows(op: ReduceRowsOp, context: Context) -> Function:
    """
    Reduces each row by combining its halves until one element is left. Fills the row with this
    element.
    """
    form, code = matrix_form(op.matrix.type, context), _compiled_once(op, context)

    def call(batch: Batch, matrix: Array) -> Array:
        own = matrix.astype(form.dtype, copy=False)
        total = combined(own, 3, combination(code(), batch, form))
        return total.astype(form.carrier, copy=False).repeat(form.columns, axis=3)

    return call


@terminator(YieldOp)
def yield_one(op: YieldOp, flow: Flow) -> Callable[[Env], Leaving]:
    """Returns the function's value in all lanes."""
    slot = flow.compiler.slot(op.arguments[0])
    narrow = flow.compiler.widened.narrowing(op.arguments[0])

    def call(env: Env) -> Leaving:
        env[RETURNED] = env[slot] if narrow is None else narrow(env[slot])
        return RETURN

    return call
