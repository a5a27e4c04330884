"""
Runs invocations in another order than lockstep, as a device may. Races then change results.

A schedule shuffles the workgroups and splits them into chunks. Within a chunk, each workgroup's
invocations are distributed over several parts. The parts run one after another, each until the
workgroup's next barrier or its end. A part therefore finishes all its work up to a barrier before
another part starts. If a barrier between a store and a load is missing, one of a few schedules
executes them in the wrong order.

If a module has subgroup instructions, a part consists of whole subgroups. If it has workgroup
instructions other than barriers, there is only one part. Each part is a batch. Batches take turns
as in lockstep (turns.py), but in a random order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.budget import BLOCKS, Budget
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.spirv.control_flow import compile_function
from xdsl_spirv.interpreter.turns import Turns, chunk_size, parted_by

PARTS = 4
"""Maximum number of parts into which a workgroup's invocations are split."""
CHUNK = 4
"""Maximum number of workgroups that a schedule runs together."""


def run_scheduled(
    context: Context, function: Operation, arguments: Sequence[Any], workgroups: int | None
) -> None:
    """Runs a function in the schedule's order, for the first `workgroups` workgroups or for all."""
    schedule = context.options.schedule
    assert schedule is not None
    context.steps = Budget(context.options.max_steps or BLOCKS)
    code = compile_function(function, context)
    random, total = np.random.default_rng(schedule.seed), context.geometry.workgroups
    order = random.permutation(total if workgroups is None else min(workgroups, total))
    together = parted_by(context, function)
    largest, at = min(CHUNK, chunk_size(context, code)), 0
    turns = Turns(context, code, arguments, lambda: together, random)
    with np.errstate(all="ignore"):
        while at < order.size:
            size = int(random.integers(1, largest + 1))
            batch = Batch.of(context.geometry, np.sort(order[at : at + size]))
            at += size
            batch.globals = context.batch_globals(batch)
            turns.run(batch, _parts(context, batch, together, random))
        turns.finish()


def _parts(
    context: Context, batch: Batch, together: Scope, random: np.random.Generator
) -> list[Batch]:
    if together == Scope.Subgroup:
        batches = [batch.subgroups_only(chosen) for chosen in _dealt(random, batch.subgroups)]
    elif together == Scope.Invocation:
        batches = [batch.lanes_only(lanes) for lanes in _lanes(random, batch)]
    else:
        return [batch]
    for part in batches:
        part.globals = _globals(context, batch, part)
        part.apart = True
    return batches


def _dealt(random: np.random.Generator, count: int) -> list[Array]:
    """
    Distributes the integers from 0 to `count` - 1 at random over at most `PARTS` lists, which are
    sorted.
    """
    numbers = random.permutation(count)
    return [np.sort(chosen) for chosen in np.array_split(numbers, min(PARTS, count))]


def _lanes(random: np.random.Generator, batch: Batch) -> list[Array]:
    """Returns masks that split a workgroup's invocations into parts."""
    masks: list[Array] = []
    for chosen in _dealt(random, batch.geometry.invocations):
        lanes = np.zeros(batch.subgroups * batch.lanes, np.bool_)
        lanes[chosen] = True
        masks.append(lanes.reshape(1, batch.subgroups, batch.lanes))
    return masks


def _globals(context: Context, whole: Batch, part: Batch) -> list[Any]:
    """Returns the variables of a part. The parts of a workgroup share its Workgroup memory."""
    variables: list[Any] = []
    for create, value in zip(context.creators, whole.globals, strict=True):
        shared = isinstance(value, Pointer) and value.memory.rows == "workgroup"
        variables.append(value if shared else create(part))
    return variables
