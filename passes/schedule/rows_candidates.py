"""
Lists the schedules of few rows that are tried for a contraction, the best one first, and recognizes
contractions with few rows. `rows` defines the meaning and the cost of such a schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from xdsl.dialects.builtin import IntegerType, f32

from xdsl_spirv.dialects.schedule import RowsAttr
from xdsl_spirv.dialects.schedule.paths import MOST_BYTES, MOST_DIGITS
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div, is_dynamic, typical
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction
from xdsl_spirv.passes.analysis.layout import NotLinear
from xdsl_spirv.passes.schedule.rows import MOST_ELEMENTS, RowsPlan
from xdsl_spirv.targets import Target

LEAST_PRODUCTS = 1 << 22
"""Least products for which the longest code pays on a CPU, as it takes longer to compile."""

MOST_INTEGER_SUMS = 16
"""
Most sums of an invocation for integers on a CPU: the code to quantize each sum is long.
"""

UNDER_WAY = 4
"""Loads of an invocation in flight at a time."""

MOST_SPREAD = 16
"""
Most elements of a unit if lanes take neighbouring units, to keep reads of rows close.
"""

MOST_BESIDE = 64
"""Most elements of the rows that an invocation holds for a unit."""

MOST_HELD = 1 << 16
"""Registers of an invocation, if a target's file does not say: more than any schedule takes."""

LEAST_BYTES = 4
"""Least bytes of a load."""

MOST_WRITTEN = 128
"""Most elements of a step for each row on devices that do not wait for memory: limits the code."""

MOST_STRAIGHT = 2048
"""
Most elements of a column whose code without a loop, two or three instructions for each, fits in a
processor's cache of decoded instructions.
"""

OFTEN = 96
"""Least number of columns that share code, so that fetching it costs little."""

TURNS = 8
"""Subgroups of a workgroup on a CPU, which runs them in turn."""

SUBGROUPS = 8
"""Subgroups of a workgroup that divide K at most."""

RESIDENT = 32
"""Subgroups that run side by side on a compute unit where they have 64 registers each."""

MOST_BITS = 8
"""Most bits of packed weights for which a kernel is limited by arithmetic, not by memory."""

MOST_OF_DIGITS = 2
"""Most rows for which making digits costs less than making floats of the weights."""

SHARING, LEAST_SHARING = (16, 32), 4
"""Subgroups of a workgroup that make digits together, and the number of them that have all of K."""

SHARED_WIDTH = 2
"""Columns in a group if invocations share digits."""

FEW_GROUPS = 3
"""Number of groups of which two are read ahead; more would not fit in registers."""

LEAST_IN_GROUPS = 12
"""Least columns of an invocation for which computing digits of the rows' elements pays."""

LEAST_IN_NARROW_GROUPS = 8
"""As `LEAST_IN_GROUPS`, for one row, in groups of half as many columns with shorter code."""


def list_plans(contraction: Contraction, target: Target) -> Iterator[Iterator[RowsPlan]]:
    """Lists the plans of few rows, the best one first."""
    few = min(typical(contraction.m), typical(contraction.n))
    trial = RowsPlan(contraction, RowsAttr(1, 1, 1, 1, subgroups=(1, 1)), target)
    yield (replace(trial, schedule=schedule) for schedule in candidates(trial, few))


def candidates(plan: RowsPlan, few: int) -> Iterator[RowsAttr]:
    """Lists the candidate schedules, the best one first."""
    target = plan.target
    try:
        side_by_side, columns = plan.operands.side_by_side, typical(plan.operands.columns)
    except (NotAContraction, NotLinear):
        yield plan.schedule
        return
    most_rows = target.model.rows.most_rows // _shorter(plan)
    rows = ceil_div(few, ceil_div(few, most_rows))
    batch = typical(plan.contraction.batch)
    if target.processor:
        yield from _on_processor(plan, rows, side_by_side, columns)
        return
    yield from _with_shared_digits(plan, few)
    yield from _in_groups(plan, few)
    if side_by_side > 1:
        yield from _across(plan, few)
    room = target.held_registers or MOST_HELD
    rows = ceil_div(rows, ceil_div(rows * side_by_side, room))
    beside = min(MOST_BESIDE, room) // rows
    bytes, unit_size = _load(plan, max(1, min(MOST_SPREAD, beside)))
    units = typical(plan.operands.units) * prod(plan.operands.unit.values()) // unit_size
    wanted = target.model.rows.busy * target.compute_units
    # Packed weights have fewer bytes and more arithmetic: more loads in flight hide both.
    packed = any(unpacking is not None for unpacking in plan.contraction.unpackings)
    under_way = UNDER_WAY * (2 if packed else 1)
    for width in (4, 2, 1):
        own = max(width, side_by_side)
        if rows * own > max(min(target.model.rows.most_sums, room), rows * side_by_side):
            continue
        # Registers of a step: the loads of the columns, and the elements of the rows beside them.
        held = (own * bytes // LEAST_BYTES + rows * unit_size) // side_by_side
        for lanes in (target.subgroup_size,) if side_by_side == 1 else (4, 1):
            subgroups = ceil_div(columns, own * target.subgroup_size // lanes)
            subgroups *= batch * ceil_div(few, rows)
            along = 4 if packed and units >= 8 * lanes else 1
            while along < SUBGROUPS and subgroups * along < wanted and units >= 2 * along * lanes:
                along *= 2
            if width > 1 and 2 * subgroups * along < wanted:
                continue
            while along:
                steps = max(1, under_way * MOST_BYTES // bytes * side_by_side // own // rows)
                while steps > 1 and (units < steps * along * lanes or steps * held > room):
                    steps //= 2
                yield RowsAttr(
                    rows, own, lanes, steps, bytes, subgroups=(along, max(1, 4 // along))
                )
                along //= 2


def _across(plan: RowsPlan, few: int) -> Iterator[RowsAttr]:
    """
    Yields schedules of one or two rows whose columns lie side by side, for devices with
    measurements in their file: enough subgroups divide K to keep the device busy.

    Loads of four columns leave room for the partial sums of all parts in Workgroup memory.
    """
    target, size = plan.target, plan.target.subgroup_size
    if few > 2 or target.measured_copy is None:
        return
    bytes, _ = _load(plan, 4)
    trial = replace(plan, schedule=RowsAttr(few, 4, 4, 2, bytes, subgroups=(SUBGROUPS, 1)))
    width, most = trial.operands.side_by_side, target.max_invocations // size
    workgroups = typical(plan.contraction.batch)
    workgroups *= ceil_div(typical(plan.operands.columns), width * size // 4)
    along = SUBGROUPS
    wanted = target.model.rows.busy * target.compute_units
    while along < most and workgroups * along < wanted:
        along *= 2
    while along >= SUBGROUPS:
        if typical(trial.operands.units) >= 2 * along * 4:
            yield RowsAttr(few, width, 4, 2, bytes, subgroups=(along, 1))
        along //= 2


def _digits_pay(plan: RowsPlan, few: int) -> bool:
    """True if multiplying integers is faster than converting the weights to floats."""
    unpacking = plan.contraction.unpackings[plan.operands.streamed]
    if unpacking is None or unpacking.bits >= MOST_BITS * unpacking.size or few > MOST_OF_DIGITS:
        return False
    rates = plan.target.rates
    dots, products = rates.get("dot", 0), rates.get("fma f32", 0)
    return plan.sums.type == f32 and dots > 0 and dots >= 2 * products


def _with_shared_digits(plan: RowsPlan, few: int) -> Iterator[RowsAttr]:
    """
    Yields the schedule of one row in which several subgroups compute digits together, and read
    units of the largest loads. Two columns at a time leave registers for as many subgroups as run
    side by side.

    Yields it only if two such workgroups run side by side (one, if K is long and it fills a compute
    unit), and if the streamed operand has one plane of integers: nothing else was measured.
    """
    target, size = plan.target, plan.target.subgroup_size
    if (
        few > 1
        or not _digits_pay(plan, few)
        or is_dynamic(plan.operands.units)
        or plan.operands.side_by_side > 1
    ):
        return
    planes = [
        isinstance(leaf.element, IntegerType)
        for leaf in plan.operands.leaves[plan.operands.streamed]
    ]
    along = ceil_div(plan.operands.units, size)
    sharing = next((subgroups for subgroups in SHARING if subgroups >= 2 * along), 0)
    if along < LEAST_SHARING or not sharing or planes.count(True) != 1:
        return
    workgroups, across = RESIDENT // sharing, sharing // along
    results = typical(plan.operands.columns) * typical(plan.contraction.batch)
    slots = target.compute_units * workgroups * across * SHARED_WIDTH
    groups = ceil_div(results, slots)
    ahead = 2 if groups <= FEW_GROUPS else 1
    of_load = 1, SHARED_WIDTH, size, 1, plan.schedule.bytes.data, groups, ahead, MOST_DIGITS
    schedule = RowsAttr(*of_load, subgroups=(along, across))
    shared = replace(plan, schedule=schedule)
    fits = shared.workgroup_bytes * workgroups <= target.residency.memory_bytes
    if shared.digits.are_shared and fits:
        yield schedule


def _in_groups(plan: RowsPlan, few: int) -> Iterator[RowsAttr]:
    """
    Yields schedules of digits in which the subgroups of a workgroup divide all of K, with as many
    groups of columns as let the workgroups run side by side.

    With units of 16 elements, each lane computes digits of half as many elements as with 32, in
    pieces that lie half as far apart.
    """
    if not _digits_pay(plan, few):
        return
    target, size = plan.target, plan.target.subgroup_size
    most = target.model.rows.most_rows
    results = typical(plan.operands.columns) * typical(plan.contraction.batch)
    for spread in (MOST_SPREAD, MOST_SPREAD // 2):
        bytes, elements = _load(plan, spread)
        in_units = replace(plan, schedule=plan.schedule.replace_values(bytes=bytes))
        if is_dynamic(in_units.operands.units) or in_units.operands.side_by_side > 1:
            continue
        rows = ceil_div(few, ceil_div(few, min(most, max(1, MOST_BESIDE // elements))))
        steps = ceil_div(in_units.operands.units, size * RESIDENT)
        along = ceil_div(in_units.operands.units, size * steps)
        if rows * elements * steps > MOST_BESIDE:
            continue
        across = max(1, 4 // along)
        workgroups = max(1, RESIDENT // (along * across))
        for width, least in _widths(plan, few, rows):
            slots = target.compute_units * workgroups * width * across
            of_column = 4 * rows * width * across * along
            sums = target.residency.memory_bytes // workgroups // of_column
            groups = min(ceil_div(results * ceil_div(few, rows), slots), sums)
            if width * groups >= least:
                of_load = rows, width, size, steps, bytes, groups
                yield RowsAttr(*of_load, digits=MOST_DIGITS, subgroups=(along, across))
                break
        else:
            return


def _widths(plan: RowsPlan, few: int, rows: int) -> Iterator[tuple[int, int]]:
    """
    Yields widths of a group of digits, each with the least columns for which it pays; best first.
    """
    yield max(1, min(4, plan.target.model.rows.most_sums // 2 // rows)), LEAST_IN_GROUPS
    if few == 1:
        yield 2, LEAST_IN_NARROW_GROUPS


def _shorter(plan: RowsPlan) -> int:
    """The factor by which code is shortened on a CPU if it is not worth its time to compile."""
    contraction = plan.contraction
    sizes = contraction.m, contraction.n, contraction.k, contraction.batch
    return 2 if plan.target.processor and prod(map(typical, sizes)) < LEAST_PRODUCTS else 1


def _on_processor(plan: RowsPlan, rows: int, side_by_side: int, columns: int) -> Iterator[RowsAttr]:
    """
    Yields candidates for processors: each invocation has its own columns and reads the few rows.

    One row of a short K is multiplied without a loop: if no lane can be inactive, the device's
    compiler omits the checks before each load. All lanes then load the same word.
    """
    if (
        rows == 1
        and not is_dynamic(plan.operands.units)
        and columns >= OFTEN
        and _shares_words(plan)
    ):
        if typical(plan.operands.reduced_size) <= MOST_STRAIGHT:
            yield RowsAttr(1, 1, 1, 1, within=plan.target.subgroup_size, subgroups=(1, TURNS))
    most_sums = plan.target.model.rows.most_sums // _shorter(plan)
    while side_by_side > 1 and rows * side_by_side > most_sums:
        # Takes fewer elements of few bits at a time, so that the code for each sum stays small.
        side_by_side //= 2
    most = MOST_INTEGER_SUMS if isinstance(plan.sums.type, IntegerType) else most_sums
    rows = ceil_div(rows, ceil_div(rows * side_by_side, most))
    for width in (8, 4, 2, 1):
        own = max(width, side_by_side)
        bytes, unit_size = _load(plan, max(MOST_WRITTEN // own, side_by_side), side_by_side)
        enough = columns >= own * plan.target.subgroup_size * 4
        if width > 1 and (rows * own > most or own * unit_size > MOST_WRITTEN or not enough):
            continue
        short = 2 * own * unit_size <= MOST_WRITTEN and 2 * rows * own <= most_sums
        steps = 2 if short and typical(plan.operands.units) > 1 else 1
        yield RowsAttr(rows, own, 1, steps, bytes, subgroups=(1, 1))


def _shares_words(plan: RowsPlan) -> bool:
    """
    True if neighbouring words of the streamed operand have elements for all lanes of a subgroup.
    """
    within = plan.target.subgroup_size
    plan = replace(plan, schedule=plan.schedule.replace_values(within=within))
    main, reduced = plan.operands.main, plan.operands.reduced
    if not isinstance(main.element, IntegerType) or main.fast_loop not in reduced:
        return False
    return prod(d.count for d in plan.lane_digits) == plan.target.subgroup_size


def _load(plan: RowsPlan, most: int, most_columns: int = MOST_ELEMENTS) -> tuple[int, int]:
    """
    Returns the bytes and elements of the largest load within these limits, or of the smallest load.
    """
    bytes = MOST_BYTES
    while bytes > LEAST_BYTES and (
        prod(plan.operands.unit.values()) > most or plan.operands.side_by_side > most_columns
    ):
        bytes //= 2
        plan = replace(plan, schedule=plan.schedule.replace_values(bytes=bytes))
    return bytes, prod(plan.operands.unit.values())
