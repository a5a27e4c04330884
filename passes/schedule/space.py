"""
Lists every schedule that a tuner may try for a contraction.

Schedules that do not fit (`fit`) are left out, and so are slow schedules with a single resident
workgroup per compute unit. Schedules with measured rates in the target file come first, sorted by
estimated cost. Then the best schedule of each tile and grid follows, then the second best of each,
and so on. A shortened search therefore tries the most promising schedules. `neighbours` lists the
schedules that differ in one decision, to continue a search from the best schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, product, zip_longest
from math import prod
from typing import Any

from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.schedule import (
    ContractionAttr,
    DirectAttr,
    InstructionAttr,
    StagedAttr,
    bit_width,
)
from xdsl_spirv.dialects.schedule.attributes import FIRST, RESULTS
from xdsl_spirv.dialects.schedule.symbolic_sizes import typical
from xdsl_spirv.passes.analysis.contraction import Contraction
from xdsl_spirv.passes.schedule.assign_schedule import choose
from xdsl_spirv.passes.schedule.contraction_candidates import (
    candidates_of,
    in_panels,
    packable,
    paths,
)
from xdsl_spirv.passes.schedule.cost import cost
from xdsl_spirv.passes.schedule.paths import TILED, Decisions
from xdsl_spirv.passes.schedule.plan import Plan, Rates, ceil_div
from xdsl_spirv.targets import Target

EXTENTS = (8, 16, 32, 64, 96, 128, 192, 256)
GRIDS = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (2, 4), (4, 2), (1, 8), (8, 1), (4, 4))
SLICES = (1, 2, 4, 8)
"""Numbers of slices of a K tile. Only `neighbours` tries more than one."""
DEPTHS = (1, 2, 4)
"""Candidate depths of a K tile, in multiples of the instruction's depth."""
STAGES = (1, 2)
RASTER_GROUPS = (1, 4, 8, 16)


def candidates(contraction: Contraction, target: Target, most: int) -> list[ContractionAttr]:
    """Returns up to `most` fitting schedules, the default of `assign-schedule` first."""
    default = choose(contraction, target, Decisions(), TILED).schedule
    assert isinstance(default, ContractionAttr)
    schedules = {default: None}
    for candidate in chain(_rated_plans(contraction, target), _unrated_plans(contraction, target)):
        if len(schedules) >= most:
            break
        if candidate.schedule not in schedules and not any(candidate.problems()):
            schedules[candidate.schedule] = None
    return list(schedules)[:most]


def _rated_plans(contraction: Contraction, target: Target) -> Iterator[Plan]:
    for kind in islice(candidates_of(contraction, target), 1):
        yield from _in_order(
            (cost(planned, Rates(planned.rates.rate)), number, planned)
            for number, planned in enumerate(kind)
            if planned.rates.rate and _is_resident(planned)
        )


def _unrated_plans(contraction: Contraction, target: Target) -> Iterator[Plan]:
    """Yields plans of all schedules, rated or not. Starts with the best of each tile and grid."""
    priced = (
        (planned.seconds, number, planned)
        for number, schedule in enumerate(_all(contraction, target))
        if _is_resident(planned := Plan(contraction, schedule, target))
    )
    yield from _in_turn(_in_order(priced))


def _in_order(priced: Iterable[tuple[float, int, Plan]]) -> list[Plan]:
    return [planned for _, _, planned in sorted(priced, key=lambda row: row[:2])]


def _in_turn(ordered: Iterable[Plan]) -> Iterator[Plan]:
    """Yields the first plan of each tile and grid, then the second of each, and so on."""
    groups: dict[object, list[Plan]] = {}
    for planned in ordered:
        groups.setdefault((planned.schedule.tile[:2], planned.schedule.counts), []).append(planned)
    for row in zip_longest(*groups.values()):
        yield from (planned for planned in row if planned is not None)


def neighbours(
    contraction: Contraction, target: Target, schedule: ContractionAttr
) -> Iterator[ContractionAttr]:
    """Yields the fitting schedules that differ from `schedule` in a single decision."""
    for change in _changes(contraction, target, schedule):
        try:
            neighbour = Plan(contraction, schedule.replace_values(**change), target)
            fits = _is_resident(neighbour) and not any(neighbour.problems())
        except VerifyException:
            continue  # The tile is not a multiple of the instruction.
        if fits and neighbour.schedule != schedule:
            yield neighbour.schedule


def _changes(
    contraction: Contraction, target: Target, one: ContractionAttr
) -> Iterator[dict[str, Any]]:
    m, n, k = one.tile
    for tile in ((m, n, 2 * k), (m, n, k // 2), (2 * m, n, k), (m // 2, n, k)):
        yield {"workgroup_tile": tile}
    for tile in ((m, 2 * n, k), (m, n // 2, k), (2 * m, n // 2, k), (m // 2, 2 * n, k)):
        yield {"workgroup_tile": tile}
    for grid, slices in product(GRIDS, SLICES):
        count = prod(grid) * slices
        if one.subgroup_count // 2 <= count <= 2 * one.subgroup_count:
            deep = k * max(1, slices // one.slices)
            yield {"subgroups": (*grid, slices), "workgroup_tile": (m, n, deep)}
    for raster, group in product(("rows", "columns"), RASTER_GROUPS):
        yield {"raster": raster, "group": group}
    if one.instruction.kind.data != "coopmat":
        yield {"stages": 3 - one.stages.data}
        return
    for listed in target.properties_for(contraction.types):
        yield {"instruction": InstructionAttr("coopmat", listed.shape)}
    for first in FIRST:
        yield {"first": first}
    for result in RESULTS:
        yield {"result": result}
    direct = set(packable(contraction))
    staged = paths(contraction, one.instruction.sizes, 16)
    choices = [
        [
            *(path.replace_values(buffers=buffers) for buffers in (1, 2)),
            *(_packed_paths(contraction, number) if name in direct else ()),
        ]
        for number, (name, path) in enumerate(zip("ab", staged, strict=True))
    ]
    for a, b, stages in product(*choices, STAGES):
        if (a != one.a) + (b != one.b) <= 1 or stages != one.stages.data:
            yield {"a": a, "b": b, "stages": stages}


def _packed_paths(contraction: Contraction, operand: int) -> list[StagedAttr | DirectAttr]:
    vector = 16 * 8 // bit_width(contraction.element_types[operand])
    staged = [StagedAttr(0, vector, buffers, layout="fragments") for buffers in (1, 2)]
    return [DirectAttr(), DirectAttr(1), *staged]


def _is_resident(planned: Plan) -> bool:
    """True if several workgroups fit on a compute unit, so that it stays busy."""
    room = planned.target.residency.bytes_for(planned.schedule.subgroup_count)
    return planned.workgroup_bytes <= room


def _all(contraction: Contraction, target: Target) -> Iterator[ContractionAttr]:
    """Yields all schedules of cooperative matrices; without matrices, the default candidates."""
    listed = target.properties_for(contraction.types)
    if not listed:
        for candidate in chain.from_iterable(candidates_of(contraction, target)):
            yield candidate.schedule
        return
    direct = set(packable(contraction))
    for line in listed:
        m, n, k = line.shape
        instruction = InstructionAttr("coopmat", line.shape)
        ways_of_a, ways_of_b = (
            [*_variants(contraction, operand, path, k, "ab"[operand] in direct)]
            for operand, path in enumerate(paths(contraction, line.shape, 16))
        )
        whole = ceil_div(typical(contraction.m), m) * m, ceil_div(typical(contraction.n), n) * n
        for (tile_m, tile_n), grid in product(_tiles(whole), GRIDS):
            if not _is_sensible((tile_m, tile_n), grid, line.shape, whole, target):
                continue
            for depth, path_a, path_b, stages in product(DEPTHS, ways_of_a, ways_of_b, STAGES):
                tile = (tile_m, tile_n, min(depth * k, ceil_div(typical(contraction.k), k) * k))
                yield ContractionAttr(tile, grid, instruction, path_a, path_b, stages)


def _tiles(whole: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """
    Yields tile sizes with an aspect ratio of at most 4. Each side is below twice the result's.
    """
    for tile_m, tile_n in product(EXTENTS, EXTENTS):
        if max(tile_m, tile_n) <= 4 * min(tile_m, tile_n):
            if tile_m < 2 * whole[0] and tile_n < 2 * whole[1]:
                yield tile_m, tile_n


def _is_sensible(
    tile: tuple[int, int],
    grid: tuple[int, int],
    shape: tuple[int, int, int],
    whole: tuple[int, int],
    target: Target,
) -> bool:
    """
    True if the subgroups of a grid divide the tile and get a suitable number of fragments of
    `shape`. `whole` is the size of the result.
    """
    (tile_m, tile_n), (unit_m, unit_n) = tile, (grid[0] * shape[0], grid[1] * shape[1])
    if tile_m % unit_m or tile_n % unit_n:
        return False
    fragments = tile_m // unit_m * (tile_n // unit_n)
    # A single fragment does not reuse operands: only small results justify it.
    most = target.model.contraction.most_fragments
    return fragments <= most and (fragments > 1 or min(whole) <= 64)


def _variants(
    contraction: Contraction, operand: int, path: StagedAttr, k: int, packable: bool
) -> Iterator[StagedAttr | DirectAttr]:
    yield path
    if packable:
        yield DirectAttr()
        panels = in_panels(contraction, operand, k)
        if panels is not None:
            yield panels
