"""
Defines the semantics of constants. Specialization constants are known at launch, others at
compilation.

An undefined value is 0, so that runs are reproducible.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import constants as ops
from xdsl_spirv.dialects.spirv import memory as memory_ops
from xdsl_spirv.interpreter.code import Compiler, link
from xdsl_spirv.interpreter.constants import constant_value
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import zeros
from xdsl_spirv.interpreter.semantics import constant, control, same, value_table


@constant(ops.ConstantOp)
def spirv_constant(op: ops.ConstantOp, context: Context) -> Any:
    """Returns the constant, uniform over all invocations."""
    return constant_value(op.value, op.result.type, context)


@constant(ops.ConstantNullOp, ops.UndefOp)
def null(op: Operation, context: Context) -> Any:
    """Returns the null value (all bits 0) of the result type."""
    return zeros(context.form(op.results[0].type))


@constant(ops.ReferenceOfOp)
def reference_of(op: ops.ReferenceOfOp, context: Context) -> Any:
    """Returns the value that the launch gave to the constant, or its default."""
    return context.specialize(op.spec_const)


@control(ops.SpecConstantOperationOp)
def operation(op: ops.SpecConstantOperationOp, compiler: Compiler) -> Any:
    """Evaluates the operation inside an OpSpecConstantOp."""
    block = op.body.block
    steps, ended = compiler.block(block)
    assert block.last_op is not None
    (source,) = compiler.slots(block.last_op.operands)
    result = compiler.define(op.result, compiler.escapes(op.result))
    compiler.release(ended)
    copy = link(lambda a: a, (source,), (result,), compiler.merges(op.results))

    def step(env: list[Any]) -> None:
        steps.run(env)
        copy(env)

    return step


value_table({memory_ops.CopyObjectOp: same})
