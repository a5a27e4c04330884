"""
Lists candidate schedules of a contraction with few rows, the best first.

`rows` defines the meaning and the cost of a schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32

from xdsl_spirv.dialects.schedule import RowsAttr
from xdsl_spirv.dialects.schedule.paths import MOST_BYTES, MOST_DIGITS
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div, is_dynamic, typical
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction
from xdsl_spirv.passes.analysis.layout import NotLinear
from xdsl_spirv.passes.schedule.rows import MOST_ELEMENTS, RowsPlan
from xdsl_spirv.targets import Target

MOST_HELD = 1 << 16
"""Default limit of an invocation's registers. It is larger than any schedule needs."""

LEAST_BYTES = 4
"""Smallest load in bytes."""


def list_plans(contraction: Contraction, target: Target) -> Iterator[Iterator[RowsPlan]]:
    """Yields one group of plans, the best plan first."""
    few = min(typical(contraction.m), typical(contraction.n))
    trial = RowsPlan(contraction, RowsAttr(1, 1, 1, 1, subgroups=(1, 1)), target)
    yield (replace(trial, schedule=schedule) for schedule in candidates(trial, few))


def candidates(plan: RowsPlan, few: int) -> Iterator[RowsAttr]:
    """Yields the candidate schedules, the best first. `few` is the number of rows."""
    target, model = plan.target, plan.target.model.rows
    try:
        side_by_side, columns = plan.side_by_side, typical(plan.columns)
    except (NotAContraction, NotLinear):
        yield plan.schedule
        return
    most_rows = model.most_rows // _shorter(plan)
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
    beside = min(model.most_beside, room) // rows
    bytes, unit_size = _load(plan, max(1, min(model.most_spread, beside)))
    units = typical(plan.units) * prod(plan.unit.values()) // unit_size
    wanted = model.busy * target.compute_units
    # Packed weights need more loads in flight to hide latency and arithmetic.
    packed = any(unpacking is not None for unpacking in plan.contraction.unpackings)
    under_way = model.under_way * (2 if packed else 1)
    for width in (4, 2, 1):
        own = max(width, side_by_side)
        if rows * own > max(min(model.most_sums, room), rows * side_by_side):
            continue
        # Registers of a step: loads of the columns, and elements of the rows.
        held = (own * bytes // LEAST_BYTES + rows * unit_size) // side_by_side
        for lanes in (target.subgroup_size,) if side_by_side == 1 else (4, 1):
            subgroups = ceil_div(columns, own * target.subgroup_size // lanes)
            subgroups *= batch * ceil_div(few, rows)
            along = 4 if packed and units >= 8 * lanes else 1
            while along < model.subgroups and subgroups * along < wanted:
                if units < 2 * along * lanes:
                    break
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
    Yields schedules of one or two rows for weights that are contiguous along the columns.

    Enough subgroups divide K to keep the device busy. A load has four columns, so that all partial
    sums fit in Workgroup memory. Only targets with measurements use these schedules.
    """
    target, size, model = plan.target, plan.target.subgroup_size, plan.target.model.rows
    if few > 2 or target.measured_copy is None:
        return
    bytes, _ = _load(plan, 4)
    trial = replace(plan, schedule=RowsAttr(few, 4, 4, 2, bytes, subgroups=(model.subgroups, 1)))
    width, most = trial.side_by_side, target.max_invocations // size
    workgroups = typical(plan.contraction.batch)
    workgroups *= ceil_div(typical(plan.columns), width * size // 4)
    along = model.subgroups
    wanted = model.busy * target.compute_units
    while along < most and workgroups * along < wanted:
        along *= 2
    while along >= model.subgroups:
        if typical(trial.units) >= 2 * along * 4:
            yield RowsAttr(few, width, 4, 2, bytes, subgroups=(along, 1))
        along //= 2


def _digits_pay(plan: RowsPlan, few: int) -> bool:
    """True if products of digits (bytes of scaled rows) are faster than products of floats."""
    unpacking = plan.contraction.unpackings[plan.streamed]
    model = plan.target.model.rows
    if unpacking is None or unpacking.bits >= model.most_bits * unpacking.size:
        return False
    if few > model.most_of_digits:
        return False
    rates = plan.target.rates
    dots, products = rates.get("dot", 0), rates.get("fma f32", 0)
    return plan.sums.type == f32 and dots > 0 and dots >= 2 * products


def _converts_integers(plan: RowsPlan) -> bool:
    """
    True if the streamed operand's integers are converted to floats, so that digits multiply them.

    Other packed weights (MXFP4) are parts of a float's bits.
    """
    unpacking = plan.contraction.unpackings[plan.streamed]
    kinds = arith.SIToFPOp | arith.UIToFPOp
    return unpacking is not None and any(isinstance(o, kinds) for o in unpacking.op.body.block.ops)


def _with_shared_digits(plan: RowsPlan, few: int) -> Iterator[RowsAttr]:
    """
    Yields the schedule of one row in which subgroups share the row's digits (see `RowsDigits`).

    Two columns at a time leave registers for all concurrent subgroups. The schedule needs a single
    plane of integers, and two resident workgroups on a compute unit (one for a long K). Other
    cases were not measured.
    """
    target, size, model = plan.target, plan.target.subgroup_size, plan.target.model.rows
    if few > 1 or not _digits_pay(plan, few) or is_dynamic(plan.units) or plan.side_by_side > 1:
        return
    planes = [isinstance(leaf.element, IntegerType) for leaf in plan.leaves[plan.streamed]]
    if not _converts_integers(plan):
        return
    along = ceil_div(plan.units, size)
    sharing = next((subgroups for subgroups in model.sharing if subgroups >= 2 * along), 0)
    if along < model.least_sharing or not sharing or planes.count(True) != 1:
        return
    workgroups, across = model.resident // sharing, sharing // along
    results = typical(plan.columns) * typical(plan.contraction.batch)
    slots = target.compute_units * workgroups * across * model.shared_width
    groups = ceil_div(results, slots)
    ahead = 2 if groups <= model.few_groups else 1
    of_load = 1, model.shared_width, size, 1, plan.schedule.bytes.data, groups, ahead
    schedule = RowsAttr(*of_load, MOST_DIGITS, subgroups=(along, across))
    shared = replace(plan, schedule=schedule)
    fits = shared.workgroup_bytes * workgroups <= target.residency.memory_bytes
    if shared.digits.are_shared and fits:
        yield schedule


def _in_groups(plan: RowsPlan, few: int) -> Iterator[RowsAttr]:
    """
    Yields schedules with digits (bytes of floats), where a workgroup's subgroups divide all of K.

    The number of column groups is the largest for which all workgroups are resident. Loads are
    small, so that a lane computes few digits and accesses are close together.
    """
    if not _digits_pay(plan, few):
        return
    target, size, model = plan.target, plan.target.subgroup_size, plan.target.model.rows
    most, most_beside = model.most_rows, model.most_beside
    results = typical(plan.columns) * typical(plan.contraction.batch)
    digits = _converts_integers(plan)
    fewest = model.least_in_groups if digits else model.least_in_narrow_groups
    for spread in (model.most_spread, model.most_spread // 2):
        bytes, elements = _load(plan, spread)
        in_units = replace(plan, schedule=plan.schedule.replace_values(bytes=bytes))
        if is_dynamic(in_units.units) or in_units.side_by_side > 1:
            continue
        rows = ceil_div(few, ceil_div(few, min(most, max(1, most_beside // elements))))
        steps = ceil_div(in_units.units, size * model.resident)
        along = ceil_div(in_units.units, size * steps)
        if rows * elements * steps > most_beside:
            continue
        across = max(1, 4 // along)
        workgroups = max(1, model.resident // (along * across))
        widths = [(max(1, min(4, model.most_sums // 2 // rows)), fewest)]
        if few == 1:
            widths.append((2, model.least_in_narrow_groups))
        for width, least in widths:
            slots = target.compute_units * workgroups * width * across
            of_column = 4 * rows * width * across * along
            sums = target.residency.memory_bytes // workgroups // of_column
            groups = min(ceil_div(results * ceil_div(few, rows), slots), sums)
            if width * groups >= least:
                # Without digits, all loads of a short tile may come before the sum of the norm.
                ahead = 2 if not digits and groups <= model.few_groups else 1
                of_load = rows, width, size, steps, bytes, groups, ahead
                yield RowsAttr(*of_load, digits=MOST_DIGITS, subgroups=(along, across))
                break
        else:
            return


def _shorter(plan: RowsPlan) -> int:
    """
    Returns the factor by which code for a CPU gets shorter: 2 for small products, otherwise 1.
    """
    contraction = plan.contraction
    sizes = contraction.m, contraction.n, contraction.k, contraction.batch
    model = plan.target.model.rows.on_processor if plan.target.processor else None
    return 2 if model and prod(map(typical, sizes)) < model.least_products else 1


def _on_processor(plan: RowsPlan, rows: int, side_by_side: int, columns: int) -> Iterator[RowsAttr]:
    """
    Yields candidates for CPUs: each invocation has different columns and reads the few rows.

    A single row with a short K is multiplied without a loop. If no lane can be inactive, the
    driver omits the checks before each load, and all lanes load the same word.
    """
    model = plan.target.model.rows.on_processor
    assert model is not None
    if rows == 1 and not is_dynamic(plan.units) and columns >= model.often and _shares_words(plan):
        if typical(plan.contraction.k) <= model.most_straight:
            width = _straight_columns(plan, columns)
            within = plan.target.subgroup_size
            yield RowsAttr(1, width, 1, 1, within=within, subgroups=(1, model.turns))
    most_sums = plan.target.model.rows.most_sums // _shorter(plan)
    while side_by_side > 1 and rows * side_by_side > most_sums:
        # Fewer elements per load keep the code of each sum short.
        side_by_side //= 2
    most = model.most_integer_sums if isinstance(plan.sums.type, IntegerType) else most_sums
    rows = ceil_div(rows, ceil_div(rows * side_by_side, most))
    for width in (8, 4, 2, 1):
        own = max(width, side_by_side)
        bytes, unit_size = _load(plan, max(model.most_elements // own, side_by_side), side_by_side)
        enough = columns >= own * plan.target.subgroup_size * 4
        if width > 1 and (rows * own > most or own * unit_size > model.most_elements or not enough):
            continue
        short = 2 * own * unit_size <= model.most_elements and 2 * rows * own <= most_sums
        steps = 2 if short and typical(plan.units) > 1 else 1
        yield RowsAttr(rows, own, 1, steps, bytes, subgroups=(1, 1))


def _straight_columns(plan: RowsPlan, columns: int) -> int:
    """
    Returns how many columns a subgroup multiplies in code without a loop.

    The columns share the loads and the scaling of the row. Their code fits into the cache of
    decoded instructions. Their number divides all columns, so that no lane is inactive.
    """
    model = plan.target.model.rows.on_processor
    assert model is not None
    words = typical(plan.units) * plan.schedule.bytes.data // LEAST_BYTES
    for width in (4, 2):
        fits = words * width <= model.most_straight_words and columns >= width * model.often
        if fits and columns % (width * model.turns) == 0:
            return width
    return 1


def _shares_words(plan: RowsPlan) -> bool:
    """True if a load of the streamed (larger) operand has elements for all lanes of a subgroup."""
    within = plan.target.subgroup_size
    plan = replace(plan, schedule=plan.schedule.replace_values(within=within))
    main, reduced = plan.main, plan.reduced
    if not isinstance(main.element, IntegerType) or main.fast_loop not in reduced:
        return False
    return prod(d.count for d in plan.lane_digits) == plan.target.subgroup_size


def _load(plan: RowsPlan, most: int, most_columns: int = MOST_ELEMENTS) -> tuple[int, int]:
    """
    Returns the bytes and elements of the largest load with at most `most` elements and
    `most_columns` columns, or of the smallest load if none fits.
    """
    bytes = MOST_BYTES
    while bytes > LEAST_BYTES and (
        prod(plan.unit.values()) > most or plan.side_by_side > most_columns
    ):
        bytes //= 2
        plan = replace(plan, schedule=plan.schedule.replace_values(bytes=bytes))
    return bytes, prod(plan.unit.values())
