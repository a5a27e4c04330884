"""A tuner's schedules fit, the most promising come first, and neighbours differ in one decision."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

import pytest
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.dialects.schedule import ContractionAttr, DirectAttr
from xdsl_spirv.passes.analysis.contraction import Contraction, contraction_of
from xdsl_spirv.passes.schedule.assign_schedule import choose
from xdsl_spirv.passes.schedule.paths import TILED, Decisions
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.space import candidates, neighbours
from xdsl_spirv.passes.schedule.tuned import parse_schedule
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.targets import Residency, Target, load

if TYPE_CHECKING:
    from tests.passes.conftest import PlanProduct

LAVAPIPE, H200 = load("lavapipe"), load("nvidia-h200")
PRODUCT = """
func.func @main(%a: tensor<48x64xf16>, %b: tensor<64x16xf16>, %c: tensor<48x16xf32>) -> tensor<48x16xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<48x64xf16>, tensor<64x16xf16>) outs(%c : tensor<48x16xf32>) -> tensor<48x16xf32>
  return %r : tensor<48x16xf32>
}
"""  # noqa: E501
GIVEN = (
    "#schedule.contraction<workgroup_tile = [32, 16, 16], subgroups = [2, 1], instruction = "
    "coopmat 8x8x8, a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 8>>"
)


@pytest.fixture(scope="module")
def product() -> Contraction:
    """A contraction in a dispatch, so that its operands may be packed."""
    ctx = context()
    module = parse_text(PRODUCT, ctx=ctx)
    passes = Universe.get_multiverse().all_passes
    PassPipeline.parse_spec(passes, "linalg-to-contraction,form-dispatches").apply(ctx, module)
    ops = (op for op in module.walk() if isinstance(op, GenericOp))
    return contraction_of(next(op for op in ops if op.get_num_loops() == 3))


@pytest.fixture(scope="module")
def space(product: Contraction) -> list[ContractionAttr]:
    """All candidates of lavapipe."""
    return candidates(product, LAVAPIPE, 10_000)


def judge(product: Contraction, schedule: ContractionAttr, target: Target) -> Plan:
    """Returns the plan of a schedule, which must fit and leave room for another workgroup."""
    planned = Plan(product, schedule, target)
    assert not list(planned.problems())
    room = target.residency.bytes_for(schedule.subgroup_count)
    assert planned.workgroup_bytes <= room
    return planned


@pytest.mark.parametrize("target", ["nvidia-h200", "arm-mali"])
def test_candidates_begin_with_the_default_and_fit(target: str, product: Contraction):
    device = load(target)
    schedules = candidates(product, device, 20)
    assert schedules[0] == choose(product, device, Decisions(), TILED).schedule
    assert len(schedules) == len(set(schedules)) == 20
    for schedule in schedules:
        judge(product, schedule, device)
    assert candidates(product, device, 1) == schedules[:1]


def test_candidates_with_measured_rates_come_first_by_cost(product: Contraction):
    """The target file lists the slower tiles first, which compute rows beyond the result."""
    plain = next(each for each in H200.schedules if each.tile == (256, 64) and not each.direct)
    rated = [
        replace(plain, tile=tile, subgroups=(1, 1), rates={"f16 -> f32": 300})
        for tile in ((128, 16), (64, 16), (32, 16))
    ]
    target = replace(H200, schedules=tuple(rated), residency=Residency(1 << 20, 1))
    assert [each.tile[:2] for each in candidates(product, target, 2)] == [(32, 16), (64, 16)]


def test_the_best_schedule_of_each_tile_and_grid_comes_before_the_second(
    space: list[ContractionAttr],
):
    groups = [(schedule.tile[:2], schedule.counts) for schedule in space[1:]]
    firsts = list(takewhile(lambda n: groups[n] not in groups[:n], range(len(groups))))
    # The first of the default's group may be the default itself.
    assert len(firsts) >= len(set(groups)) - 1


def test_tiles_are_compact_and_not_much_larger_than_the_result(space: list[ContractionAttr]):
    """Tiles of 48 x 16 results, in fragments of 8 x 8 for each subgroup."""
    assert {schedule.tile[:2] for schedule in space} == {
        *((8, 8), (8, 16), (16, 8), (16, 16), (32, 8), (32, 16), (64, 16))
    }
    assert {schedule.tile[2] for schedule in space} == {8, 16, 32}
    assert {schedule.counts for schedule in space if schedule.tile[:2] == (16, 16)} == {
        *((1, 1), (1, 2), (2, 1), (2, 2))
    }
    assert {schedule.stages.data for schedule in space} == {1, 2}
    assert {isinstance(schedule.a, DirectAttr) for schedule in space} == {True, False}


def test_schedules_that_leave_no_room_for_a_second_workgroup_are_not_tried(
    plan_product: PlanProduct,
):
    rest = "a = staged<>, b = staged<>"
    uneven = plan_product("uneven", "8, 8, 8", "1, 1", rest).contraction
    small = replace(LAVAPIPE, residency=Residency(2048, 1))
    sizes, tried = (
        [
            Plan(uneven, schedule, target).workgroup_bytes
            for schedule in candidates(uneven, target, 500)
        ]
        for target in (LAVAPIPE, small)
    )
    assert max(sizes) > 2048
    # The default is the first one, whatever its size.
    assert sorted(tried[1:]) == sorted(size for size in sizes[1:] if size <= 2048)


def vary(product: Contraction, given: str, target: Target = LAVAPIPE) -> list[ContractionAttr]:
    """Returns the neighbours of a schedule, each of which fits."""
    schedule = parse_schedule(given)
    near = list(neighbours(product, target, schedule))
    assert schedule not in near
    for each in near:
        judge(product, each, target)
    return near


def test_neighbours_change_the_tile_or_the_grid(product: Contraction):
    near = vary(product, GIVEN)
    given = parse_schedule(GIVEN)
    kept = [each for each in near if each.counts == given.counts and each.tile != given.tile]
    assert {each.tile for each in kept} == {
        # Twice or half of each size; the last ones keep the number of elements.
        *((32, 16, 32), (32, 16, 8), (64, 16, 16), (16, 16, 16)),
        *((32, 32, 16), (32, 8, 16), (64, 8, 16), (16, 32, 16)),
    }
    grids = {each.counts: each.tile for each in near if each.counts != given.counts}
    # From half to twice as many subgroups. Slices of K need a deeper tile.
    assert grids == {
        **dict.fromkeys([(1, 1), (1, 2), (2, 2), (4, 1)], (32, 16, 16)),
        **dict.fromkeys([(1, 1, 2), (1, 2, 2), (2, 1, 2)], (32, 16, 32)),
        (1, 1, 4): (32, 16, 64),
    }


def test_neighbours_change_how_operands_and_results_are_moved(product: Contraction):
    given = parse_schedule(GIVEN)
    near = [each for each in vary(product, GIVEN) if (each.tile, each.counts) == (given.tile, given.counts)]  # fmt: skip # noqa: E501
    order = {
        (each.raster.data, each.group.data)
        for each in near
        if (each.raster, each.group) != (given.raster, given.group)
    }
    orders = {(raster, group) for raster in ("rows", "columns") for group in (1, 4, 8, 16)}
    assert order == orders - {(given.raster.data, given.group.data)}
    assert {each.first.data for each in near} == {"load", "store"}
    assert {each.result.data for each in near} == {"fragments", "rows", "components", "elements"}
    ways = {(str(each.a), str(each.b), each.stages.data) for each in near}
    staged, direct = str(given.a), "#schedule.direct"
    assert {(staged, staged, 2), (direct, staged, 1), (staged, direct, 1)} <= ways
    assert (f"{direct}<ahead = 1>", staged, 1) in ways
    # Both operands change together only if the number of stages does.
    assert (direct, direct, 1) not in ways
    twice = staged.replace("vector = 8", "vector = 8, buffers = 2")
    assert (twice, twice, 2) in ways
    assert all((a, b) != (twice, twice) or stages == 2 for a, b, stages in ways)


def test_neighbours_without_matrices_change_the_stages(plan_product: PlanProduct):
    rest = "a = staged<>, b = staged<>, stages = {}"
    for stages in (1, 2):
        planned = plan_product("batches", "4, 2, 8", "1, 1", rest.format(stages), "fma 1x1x1")
        near = list(neighbours(planned.contraction, LAVAPIPE, planned.schedule))
        others = [each for each in near if each.stages.data != stages]
        assert [each.stages.data for each in others] == [3 - stages]
        assert {each.first.data for each in near} == {planned.schedule.first.data}
