"""
A schedule for everything that is no contraction, from its shapes and the target's numbers.

Without a long reduction each invocation computes elements by itself. With one, whoever keeps the
device busy computes a row: an invocation where there are many rows, else a subgroup, and a whole
workgroup where rows are few and long.
"""

from __future__ import annotations

from math import prod

from xdsl_spirv.dialects.schedule import DispatchOp, LoopsAttr
from xdsl_spirv.passes.kernel.loops_arrays import NotLoops
from xdsl_spirv.passes.kernel.loops_groups import combinations_of
from xdsl_spirv.passes.kernel.loops_nests import Nest, columns_of, nests_of, reductions_of
from xdsl_spirv.passes.kernel.loops_reader import results_of_dispatch
from xdsl_spirv.passes.refusal import refuse
from xdsl_spirv.passes.sizes import ceil_div, is_dynamic
from xdsl_spirv.targets import Target

WORKGROUP = 64
"""Invocations of a workgroup that compute elements on their own."""

LARGE_WORKGROUP = 256
"""Invocations of a workgroup that reduces a row together."""

SHORT = 32
"""Steps of a reduction that an invocation had better do by itself."""

BUSY = 256
"""Invocations that keep a compute unit busy."""

VECTOR = 4
"""Neighbouring elements that an invocation computes where that leaves enough invocations."""


def choose_loops(dispatch: DispatchOp, target: Target, pass_name: str) -> LoopsAttr:
    """
    The schedule of a dispatch that is no contraction.

    Its `grid` and `block` are what is launched. Refuses, naming the operation, what has no lowering
    to loops.
    """
    try:
        _, results = results_of_dispatch(dispatch)
        nests = nests_of(results)
    except NotLoops as error:
        refuse(pass_name, error.op, str(error))
    if not nests:
        return LoopsAttr(1, 1)
    return _widest([_choose(nest, target) for nest in nests])


def _widest(schedules: list[LoopsAttr]) -> LoopsAttr:
    """One schedule for all nests of a kernel: who reduces in one of them, and the most groups."""
    order = ("invocation", "subgroup", "workgroup")
    chosen = max(schedules, key=lambda each: order.index(each.reduce.data))
    workgroups = max(
        -(-each.workgroups.data * each.workgroup.data // chosen.workgroup.data)
        for each in schedules
    )
    elements = min(each.elements.data for each in schedules)
    return LoopsAttr(chosen.workgroup.data, workgroups, elements, chosen.reduce.data)


def _choose(nest: Nest, target: Target) -> LoopsAttr:
    reductions = reductions_of(nest)
    columns = columns_of(nest)
    rows = int(prod(size for axis, size in enumerate(nest.shape) if axis not in columns))
    alone = min(WORKGROUP, target.max_invocations)
    busy = BUSY * target.compute_units
    longest = max(
        (
            int(prod(s for s, yes in zip(loops.sizes, loops.reduction, strict=True) if yes))
            for loops, _ in reductions
        ),
        default=1,
    )
    splits = all(combinations_of(loops) is not None for loops, _ in reductions)
    if longest < SHORT or not splits or rows >= 4 * busy:
        elements = 1
        units = rows
        if not reductions and nest.shape[-1:] and nest.shape[-1] % VECTOR == 0:
            elements = VECTOR if rows >= VECTOR * busy else 1
            units = rows // elements
        return LoopsAttr(alone, _groups(units, alone, target), elements)
    size = target.subgroup_size
    exchanges = {
        "subgroup-arithmetic",
        "subgroup-rotate",
        "subgroup-shuffle",
    } & target.features
    if exchanges and (rows * size >= busy or longest <= 2 * size):
        workgroup = max(size, alone // size * size)
        return LoopsAttr(workgroup, _groups(rows * size, workgroup, target), 1, "subgroup")
    most = min(LARGE_WORKGROUP, target.max_invocations)
    workgroup = max(size, min(most, -(-longest // size) * size) // size * size)
    return LoopsAttr(workgroup, _groups(rows, 1, target), 1, "workgroup")


def _groups(units: int, size: int, target: Target) -> int:
    """Workgroups for so many units, `size` of them to a workgroup."""
    return max(1, min(-(-units // size), target.max_grid[0]))


def units_of(dispatch: DispatchOp, schedule: LoopsAttr, target: Target) -> int:
    """
    Workgroups that have something to do: those that are launched where all sizes are known, fewer
    where dynamic ones are small.
    """
    _, results = results_of_dispatch(dispatch)
    total = 0
    for nest in nests_of(results):
        columns = columns_of(nest)
        rows = prod(size for axis, size in enumerate(nest.shape) if axis not in columns)
        if not is_dynamic(rows):
            return schedule.workgroups.data
        each = {
            "invocation": schedule.workgroup.data,
            "subgroup": schedule.workgroup.data // target.subgroup_size,
            "workgroup": 1,
        }[schedule.reduce.data]
        total += ceil_div(rows, each)
    return total if is_dynamic(total) else schedule.workgroups.data
