"""
Every schedule that a tuner may try for a contraction: shapes, tiles, grids, paths, depths, stages.

What does not fit is left out by the rules that `assign-schedule` has (`fit`), and so is what the
memory of a compute unit says is slow: workgroups of which only one is resident. The rest comes in
the order of the estimated cost, so that a search that is cut short has seen the likely ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xdsl_spirv.dialects.schedule import (
    ContractionAttr,
    DirectAttr,
    InstructionAttr,
    StagedAttr,
)
from xdsl_spirv.passes.schedule.assign_schedule import candidates_of, choose, packable, paths
from xdsl_spirv.passes.schedule.contraction import Contraction
from xdsl_spirv.passes.schedule.cost import cost
from xdsl_spirv.passes.schedule.fit import problems_of
from xdsl_spirv.passes.schedule.plan import Plan, ceil_div, plan
from xdsl_spirv.targets import Target

EXTENTS = (8, 16, 32, 64, 96, 128, 192, 256)
GRIDS = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (2, 4), (4, 2), (1, 8), (8, 1), (4, 4))
DEPTHS = (1, 2, 4)
"""Instructions along K that are staged at a time."""
MOST_ACCUMULATORS = 16
"""Fragments of the result in one subgroup: beyond it registers spill on every device measured."""
STAGES = (1, 2)


def candidates(contraction: Contraction, target: Target, most: int) -> list[ContractionAttr]:
    """Up to `most` schedules that fit, the one that `assign-schedule` takes first."""
    first = choose(contraction, target)
    priced = [
        (cost(made, None), number, made)
        for number, schedule in enumerate(_all(contraction, target))
        if _is_resident(made := plan(contraction, schedule, target))
    ]
    found = [first]
    for _, _, made in sorted(priced, key=lambda row: row[:2]):
        if len(found) >= most:
            break
        if made.schedule not in found and not any(problems_of(made)):
            found.append(made.schedule)
    return found[:most]


def _is_resident(made: Plan) -> bool:
    """Whether workgroups keep a compute unit full."""
    room = made.target.residency.bytes_for(made.schedule.subgroup_count)
    return made.workgroup_bytes <= room


def _all(contraction: Contraction, target: Target) -> Iterator[ContractionAttr]:
    """Cooperative matrices in every form; else what the target's heuristics list."""
    listed = target.properties_for(contraction.types)
    if not listed:
        for _, kind in candidates_of(contraction, target):
            yield from (candidate.schedule for candidate in kind)
        return
    direct = set(packable(contraction))
    for line in listed:
        m, n, k = line.shape
        instruction = InstructionAttr("coopmat", line.shape)
        a, b = paths(contraction, line.shape, 16)
        whole = ceil_div(contraction.m, m) * m, ceil_div(contraction.n, n) * n
        for (tile_m, tile_n), grid in product(_tiles(whole), GRIDS):
            if not _is_sensible(tile_m, tile_n, grid, line.shape, whole):
                continue
            for depth in DEPTHS:
                tile = (tile_m, tile_n, min(depth * k, ceil_div(contraction.k, k) * k))
                for path_a in _variants(a, "a" in direct):
                    for path_b in _variants(b, "b" in direct):
                        for stages in STAGES:
                            yield ContractionAttr(tile, grid, instruction, path_a, path_b, stages)


def _tiles(whole: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Tiles that are no more than four times as long as wide, and no larger than they need be."""
    for tile_m, tile_n in product(EXTENTS, EXTENTS):
        if max(tile_m, tile_n) <= 4 * min(tile_m, tile_n):
            if tile_m < 2 * whole[0] and tile_n < 2 * whole[1]:
                yield tile_m, tile_n


def _is_sensible(
    tile_m: int,
    tile_n: int,
    grid: tuple[int, int],
    shape: tuple[int, int, int],
    whole: tuple[int, int],
) -> bool:
    """Whether subgroups divide the tile and have few enough fragments, but not one of many."""
    unit_m, unit_n = grid[0] * shape[0], grid[1] * shape[1]
    if tile_m % unit_m or tile_n % unit_n:
        return False
    fragments = tile_m // unit_m * (tile_n // unit_n)
    # Single fragments reuse nothing: they are for results that have no more.
    return fragments <= MOST_ACCUMULATORS and (fragments > 1 or min(whole) <= 64)


def _variants(path: StagedAttr, packable: bool) -> Iterator[StagedAttr | DirectAttr]:
    """An operand's ways to the fragments: through Workgroup memory, or packed."""
    yield path
    if packable:
        yield DirectAttr()
