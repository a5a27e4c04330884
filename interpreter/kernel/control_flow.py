"""
Compiles `scf` and `cf`. Uniform branches and loops are executed as in Python, divergent ones under
masks.

A loop whose bounds differ between lanes runs as often as the longest lane needs. Lanes that are
done keep their iteration arguments. A divergent `scf.if` runs both branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import cf, gpu, scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.code import WAVE, Compiler, Env, Slots, Step, Steps
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.flow import RETURN, Flow, Leaving
from xdsl_spirv.interpreter.forms import Mask, Merge, merger
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import control, terminator


def body_of(compiler: Compiler, block: Block) -> tuple[Steps, Slots, list[SSAValue]]:
    """
    Compiles a body. Returns its steps, the slots of the yielded values, and the values whose slots
    can be freed afterwards.
    """
    steps, ended = compiler.block(block)
    last = block.last_op
    yielded = compiler.slots(last.operands) if last and last.has_trait(IsTerminator) else ()
    return steps, yielded, ended


def define_results(compiler: Compiler, op: Operation) -> Callable[[Env, Sequence[Any]], None]:
    """Allocates slots for an operation's results. Returns the function that assigns them."""
    slots = tuple(compiler.define(r, compiler.escapes(r)) for r in op.results)
    return compiler.assigner(slots, compiler.merges(op.results))


def mergers(compiler: Compiler, values: Sequence[SSAValue]) -> list[Merge]:
    """Returns, for each value, a function that merges new and old values under a mask."""
    return [merger(compiler.context.form(value.type)) for value in values]


def agreed(value: Array, mask: Mask) -> int | None:
    """Returns the number that all active lanes have. Returns None if the lanes differ."""
    if value.size == 1:
        return int(value.item())
    if mask is not None:
        value = np.broadcast_to(value, np.broadcast_shapes(value.shape, mask.shape))
        value = value[np.broadcast_to(mask, value.shape)]
    low = value.min() if value.size else 0
    return int(low) if (value == low).all() else None


def split(condition: Array, mask: Mask) -> bool | tuple[Array, Array]:
    """
    Returns the condition as a bool if the active lanes agree. Otherwise returns the masks of the
    true and of the false lanes.
    """
    if condition.size == 1:
        return bool(condition.item())
    if mask is None:
        if condition.all():
            return True
        return (condition, ~condition) if condition.any() else False
    yes = condition & mask
    if not yes.any():
        return False
    no = ~condition & mask
    return (yes, no) if no.any() else True


@control(scf.ForOp)
def for_loop(op: scf.ForOp, compiler: Compiler) -> Step:
    """Runs a counted loop. Iteration arguments have fixed slots. Results are copied at the end."""
    block = op.body.block
    bounds = compiler.slots((op.lb, op.ub, op.step))
    initial = compiler.slots(op.iter_args)
    variable = compiler.define(block.args[0])
    arguments = tuple(compiler.define(arg) for arg in block.args[1:])
    steps, yielded, ended = body_of(compiler, block)
    merges = mergers(compiler, block.args[1:])
    compiler.release(ended)
    assign = define_results(compiler, op)
    compiler.release(block.args)
    run = steps.run
    moves = list(zip(arguments, yielded, strict=True))

    def uniform(env: Env, numbers: range) -> None:
        counters = np.array(numbers, env[bounds[0]].dtype).reshape(-1, 1, 1, 1)
        for counter in counters:
            env[variable] = counter
            run(env)
            if len(moves) == 1:
                env[arguments[0]] = env[yielded[0]]
            else:
                values = [env[source] for source in yielded]
                for target, value in zip(arguments, values, strict=True):
                    env[target] = value

    def step(env: Env) -> None:
        batch: Batch = env[WAVE]
        low, high, by = (agreed(env[slot], batch.mask) for slot in bounds)
        if by is not None and by <= 0:
            raise InterpreterError(
                f"a loop's step is {by}, but must be positive", op, "use a step of at least 1"
            )
        for target, source in zip(arguments, initial, strict=True):
            env[target] = env[source]
        if low is None or high is None or by is None:
            _run_parted_loop(
                env, batch, (bounds, variable), run, list(zip(merges, moves, strict=True))
            )
        else:
            uniform(env, range(low, high, by))
        assign(env, [env[slot] for slot in arguments])

    return step


def _run_parted_loop(
    env: Env,
    batch: Batch,
    counted: tuple[Slots, int],
    run: Callable[[Env], None],
    carried: Sequence[tuple[Merge, tuple[int, int]]],
) -> None:
    """Runs a loop whose bounds differ between lanes, each iteration under a mask."""
    bounds, variable = counted
    low, high, step = (env[slot] for slot in bounds)
    outer, counter = batch.mask, low
    while True:
        more = counter < high
        mask = more if outer is None else more & outer
        if not mask.any():
            break
        batch.mask = mask
        env[variable] = counter
        run(env)
        values = [merge(mask, env[source], env[to]) for merge, (to, source) in carried]
        for (_, (to, _)), value in zip(carried, values, strict=True):
            env[to] = value
        counter = counter + step
    batch.mask = outer


@control(scf.IfOp)
def if_else(op: scf.IfOp, compiler: Compiler) -> Step:
    """Runs one branch if all lanes agree. Otherwise runs both branches under masks."""
    condition = compiler.slot(op.cond)
    then_steps, then_slots, then_ended = body_of(compiler, op.true_region.block)
    has_else = bool(op.false_region.blocks)
    else_steps, else_slots, else_ended = (
        body_of(compiler, op.false_region.block) if has_else else (Steps(), (), [])
    )
    assign = define_results(compiler, op)
    compiler.release(then_ended)
    compiler.release(else_ended)
    merges = mergers(compiler, op.results)

    def step(env: Env) -> None:
        batch: Batch = env[WAVE]
        way = split(env[condition], batch.mask)
        if way is True:
            then_steps.run(env)
            assign(env, [env[slot] for slot in then_slots])
        elif way is False:
            else_steps.run(env)
            assign(env, [env[slot] for slot in else_slots])
        else:
            outer = batch.mask
            batch.mask = way[0]
            then_steps.run(env)
            batch.mask = way[1]
            else_steps.run(env)
            batch.mask = outer
            assign(
                env,
                [
                    merge(way[0], env[a], env[b])
                    for merge, a, b in zip(merges, then_slots, else_slots, strict=True)
                ],
            )

    return step


@control(scf.WhileOp)
def while_loop(op: scf.WhileOp, compiler: Compiler) -> Step:
    """
    Runs a loop until the condition fails in all lanes. Lanes that have left the loop keep their
    values.
    """
    before, after = op.before_region.block, op.after_region.block
    initial = compiler.slots(op.arguments)
    before_slots = tuple(compiler.define(arg) for arg in before.args)
    before_steps, condition_slots, before_ended = body_of(compiler, before)
    after_slots = tuple(compiler.define(arg) for arg in after.args)
    after_steps, yielded, after_ended = body_of(compiler, after)
    merges = mergers(compiler, before.args)
    result_merges = mergers(compiler, op.results)
    assign = define_results(compiler, op)
    for values in (before_ended, after_ended, before.args, after.args):
        compiler.release(values)
    condition, *passed = condition_slots

    def step(env: Env) -> None:
        batch: Batch = env[WAVE]
        outer = batch.mask
        for target, source in zip(before_slots, initial, strict=True):
            env[target] = env[source]
        results: list[Any] | None = None
        while True:
            before_steps.run(env)
            values = [env[slot] for slot in passed]
            mask = batch.mask
            way = split(env[condition], mask)
            if results is None or mask is outer:
                results = values
            else:
                merged = zip(result_merges, values, results, strict=True)
                results = [merge(mask, new, old) for merge, new, old in merged]
            if way is False:
                break
            if way is not True:
                batch.mask = way[0]
            for target, value in zip(after_slots, values, strict=True):
                env[target] = value
            after_steps.run(env)
            following = [env[slot] for slot in yielded]
            for merge, target, value in zip(merges, before_slots, following, strict=True):
                whole = batch.mask is outer
                env[target] = value if whole else merge(batch.mask, value, env[target])
        batch.mask = outer
        assign(env, results)

    return step


@terminator(cf.BranchOp)
def branch(op: cf.BranchOp, flow: Flow) -> Callable[[Env], Leaving]:
    """Branches to one block."""
    return jump(flow, op.successor, op.arguments)


@terminator(cf.ConditionalBranchOp)
def conditional_branch(op: cf.ConditionalBranchOp, flow: Flow) -> Callable[[Env], Leaving]:
    """Sends each lane to one of two blocks, by its condition."""
    return choose(
        flow, op.cond, (op.then_block, op.then_arguments), (op.else_block, op.else_arguments)
    )


@terminator(gpu.ReturnOp)
def gpu_return(op: gpu.ReturnOp, flow: Flow) -> Callable[[Env], Leaving]:
    """Returns from the function in the active lanes."""
    return lambda env: RETURN


def jump(flow: Flow, target: Block, operands: Sequence[SSAValue]) -> Callable[[Env], Leaving]:
    """Assigns the arguments of the target block and branches to it."""
    number, read, assign = flow.edge(target, operands)
    if not operands:
        return lambda env: number

    def call(env: Env) -> Leaving:
        assign(env, read(env))
        return number

    return call


Target = tuple[Block, Sequence[SSAValue]]


def choose(flow: Flow, condition: SSAValue, yes: Target, no: Target) -> Callable[[Env], Leaving]:
    """Sends each lane to one of two blocks, by its condition."""
    slot = flow.compiler.slot(condition)
    yes_number, yes_read, yes_assign = flow.edge(*yes)
    no_number, no_read, no_assign = flow.edge(*no)

    def call(env: Env) -> Leaving:
        batch: Batch = env[WAVE]
        way = split(env[slot], batch.mask)
        if way is True:
            yes_assign(env, yes_read(env))
            return yes_number
        if way is False:
            no_assign(env, no_read(env))
            return no_number
        arms = [(yes_assign, yes_read(env), way[0]), (no_assign, no_read(env), way[1])]
        assign_parted(env, batch, arms)
        return [(yes_number, way[0]), (no_number, way[1])]

    return call


Arm = tuple[Callable[[Env, Any], None], Any, Mask]


def assign_parted(env: Env, batch: Batch, arms: Sequence[Arm]) -> None:
    """Assigns the block arguments of several branch targets, each only in the lanes of its mask."""
    outer, partial = batch.mask, batch.partial
    batch.partial = True
    for assign, values, mask in arms:
        batch.mask = mask
        assign(env, values)
    batch.mask, batch.partial = outer, partial
