"""Defines the semantics of structured control flow and branches. flow.py runs the regions."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import control_flow as ops
from xdsl_spirv.dialects.spirv import exits, hints, raw
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.code import RETURNED, WAVE, Code, Compiler, Env, Step
from xdsl_spirv.interpreter.constants import attribute_array as constant_array
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.flow import LEAVE, RETURN, Flow, Leaving
from xdsl_spirv.interpreter.forms import Mask, merger
from xdsl_spirv.interpreter.kernel.control_flow import (
    agreed,
    assign_parted,
    choose,
    define_results,
    jump,
)
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, action, control, terminator


@control(ops.LoopOp, ops.SelectionOp)
def construct(op: ops.LoopOp | ops.SelectionOp, compiler: Compiler) -> Step | None:
    """Runs the region of a loop or selection. The merge operation sets the results."""
    if not op.body.blocks:
        return None
    flow = Flow(compiler, op.body, op.results)
    assign = define_results(compiler, op)
    run, read = flow.run, compiler.reader(flow.results)
    if not flow.results:
        return run

    def step(env: Env) -> None:
        run(env)
        if not env[WAVE].nobody:
            assign(env, read(env))

    return step


@terminator(ops.MergeOp)
def merge(op: ops.MergeOp, flow: Flow) -> Callable[[Env], Leaving]:
    """Leaves the region with its results."""
    construct = op.parent_op()
    results = () if construct is None else construct.results
    read = flow.compiler.mover(op.arguments, results)
    assign = flow.assign_results

    def call(env: Env) -> Leaving:
        assign(env, read(env))
        return LEAVE

    return call


@terminator(ops.BranchOp)
def branch(op: ops.BranchOp, flow: Flow) -> Callable[[Env], Leaving]:
    """Branches to one block."""
    return jump(flow, op.target, op.target_operands)


@terminator(ops.BranchConditionalOp)
def branch_conditional(op: ops.BranchConditionalOp, flow: Flow) -> Callable[[Env], Leaving]:
    """Sends each lane to one of two blocks, by its condition."""
    return choose(flow, op.condition, *op.edges)


@terminator(ops.SwitchOp)
def switch(op: ops.SwitchOp, flow: Flow) -> Callable[[Env], Leaving]:
    """Sends each lane to the block of its selector's literal, or to the default block."""
    slot = flow.compiler.slot(op.selector)
    literals = (
        [] if op.literals is None else [int(v) for v in constant_array(op.literals).reshape(-1)]
    )
    arms = [flow.edge(*edge) for edge in op.edges]

    def whole(env: Env, number: int) -> int:
        target, read, assign = arms[number]
        assign(env, read(env))
        return target

    def call(env: Env) -> Leaving:
        batch: Batch = env[WAVE]
        selector = env[slot]
        literal = agreed(selector, batch.mask)
        if literal is not None:
            return whole(env, literals.index(literal) + 1 if literal in literals else 0)
        masks = _arm_masks(selector, literals, batch.active())
        taken = [number for number, mask in enumerate(masks) if mask.any()]
        if len(taken) == 1:
            return whole(env, taken[0])
        moves = [(arms[n][2], arms[n][1](env), masks[n]) for n in taken]
        assign_parted(env, batch, moves)
        return [(arms[n][0], masks[n]) for n in taken]

    return call


def _arm_masks(selector: Array, literals: list[int], active: Array) -> list[Mask]:
    """
    Returns the mask of the lanes that take the default block, and the mask of each literal's block.
    """
    rest = active
    masks: list[Mask] = []
    for literal in literals:
        masks.append((selector == literal) & rest)
        rest = rest & (selector != literal)
    return [rest, *masks]


@terminator(ops.ReturnOp, ops.KillOp)
def leave_function(op: Operation, flow: Flow) -> Callable[[Env], Leaving]:
    """Returns from the function in the active lanes."""
    return lambda env: RETURN


@terminator(ops.ReturnValueOp)
def return_value(op: ops.ReturnValueOp, flow: Flow) -> Callable[[Env], Leaving]:
    """Returns from the function with a value in the active lanes."""
    slot = flow.compiler.slot(op.value)
    narrow = flow.compiler.widened.narrowing(op.value)
    merge_values = merger(flow.compiler.context.form(op.value.type))

    def call(env: Env) -> Leaving:
        batch: Batch = env[WAVE]
        value, old = env[slot], env[RETURNED]
        if narrow is not None:
            value = narrow(value)
        if old is not None:
            value = merge_values(batch.active(), value, old)
        env[RETURNED] = value
        return RETURN

    return call


@terminator(exits.BreakOp, exits.ContinueOp)
def leave_constructs(op: exits.ExitOp, flow: Flow) -> Callable[[Env], Leaving]:
    """Sends the active lanes to a block of an enclosing construct (break, continue)."""
    compiler, construct, target = flow.compiler, op.construct, op.target
    assert construct is not None  # the operation's verifier
    assert target is not None
    outer = compiler.flows[construct.body]
    number = outer.numbers[target]
    read = compiler.mover(op.arguments, target.args)
    assign = compiler.assigner(compiler.slots(target.args), compiler.merges(target.args))

    def call(env: Env) -> Leaving:
        batch: Batch = env[WAVE]
        # Other lanes may have reached the block with other values, even if this region did not
        # diverge.
        partial, batch.partial = batch.partial, batch.mask is not None
        assign(env, read(env))
        batch.partial = partial
        return outer.exit(env, number)

    return call


@terminator(ops.UnreachableOp)
def unreachable(op: ops.UnreachableOp, flow: Flow) -> Callable[[Env], Leaving]:
    """Raises `InterpreterError` if a lane reaches the operation."""

    def call(env: Env) -> Leaving:
        raise InterpreterError(
            "an invocation has reached spirv.Unreachable",
            op,
            "change the program so that no path leads to spirv.Unreachable",
        )

    return call


@terminator(hints.AbortOp)
def abort(op: hints.AbortOp, flow: Flow) -> Callable[[Env], Leaving]:
    """Ends the launch with an `InterpreterError`."""
    slot = flow.compiler.slot(op.message)

    def call(env: Env) -> Leaving:
        raise InterpreterError(f"the program aborted, with {env[slot]}", op)

    return call


@terminator(raw.RawTerminatorOp)
def carried_end(op: raw.RawTerminatorOp, flow: Flow) -> Callable[[Env], Leaving]:
    """
    Executes OpTerminateInvocation as a return. Refuses other terminators that `spirv.Raw`
    represents.
    """
    if op.instruction.data == "OpTerminateInvocation":
        return lambda env: RETURN
    raise InterpreterError(
        f"{op.instruction.data} has no operation in the dialect (only `spirv.Raw`), and "
        "cannot be executed",
        op,
    )


@action(ops.FunctionCallOp)
def call_function(op: ops.FunctionCallOp, context: Context) -> Function:
    """Runs the callee for the active lanes."""
    name = op.callee.string_value()

    def call(batch: Batch, *arguments: object) -> object:
        return context.code(name, compile_function)(batch, arguments)

    return call


def compile_function(op: Operation, context: Context) -> Code:
    """Compiles a `spirv.func` or a `gpu.func`."""
    region = op.regions[0]
    if not region.blocks:
        raise InterpreterError(
            "the interpreter cannot execute a function without a body",
            op,
            "add the function's body",
        )
    compiler = Compiler(context) if context.compiler is None else context.compiler(op)
    arguments = tuple(compiler.keep(argument) for argument in region.blocks[0].args)
    return compiler.code(arguments, Flow(compiler, region).run)
