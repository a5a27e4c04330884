"""Each tile of a target gives a candidate for each combination of paths that operands can have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.dialects.schedule import ContractionAttr, StagedAttr
from xdsl_spirv.passes.analysis.contraction import Contraction, contraction_of
from xdsl_spirv.passes.schedule.contraction_candidates import (
    by_dots,
    by_matrices,
    by_multiply_adds,
    candidates_of,
    in_panels,
    packable,
    paths,
)
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.targets import ScheduleCandidate, Target, load

if TYPE_CHECKING:
    from tests.passes.conftest import PlanProduct

LAVAPIPE = load("lavapipe")
TILE = ScheduleCandidate((16, 16), (2, 1), 32)
TYPES = "f16 -> f32"
PRODUCT = """
func.func @main(%a: tensor<48x64xf16>, %b: tensor<64x32xf16>, %c: tensor<48x32xf32>) -> tensor<48x32xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<48x64xf16>, tensor<64x32xf16>) outs(%c : tensor<48x32xf32>) -> tensor<48x32xf32>
  return %r : tensor<48x32xf32>
}
"""  # noqa: E501


@pytest.fixture(scope="module")
def product() -> Contraction:
    """48 x 32 x 64 of f16, in a dispatch, so that its operands may be packed."""
    ctx = context()
    module = parse_text(PRODUCT, ctx=ctx)
    passes = Universe.get_multiverse().all_passes
    PassPipeline.parse_spec(passes, "linalg-to-contraction,form-dispatches").apply(ctx, module)
    ops = (op for op in module.walk() if isinstance(op, GenericOp))
    return contraction_of(next(op for op in ops if op.get_num_loops() == 3))


def take_contraction(plan_product: PlanProduct, name: str) -> Contraction:
    rest = "a = staged<>, b = staged<>"
    return plan_product(name, "4, 2, 8", "1, 1", rest, "fma 1x1x1").contraction


def list_plans(
    contraction: Contraction, *tiles: ScheduleCandidate, target: Target = LAVAPIPE
) -> list[Plan]:
    groups = by_matrices(contraction, replace(target, schedules=tiles))
    return list(chain.from_iterable(groups))


def list_schedules(contraction: Contraction, *tiles: ScheduleCandidate) -> list[ContractionAttr]:
    return [planned.schedule for planned in list_plans(contraction, *tiles)]


def test_a_tile_has_whole_fragments_of_each_subgroup(product: Contraction):
    (only,) = list_schedules(product, TILE)
    # 32 bytes of f16 along K
    assert (only.tile, only.counts, only.stages.data) == ((16, 16, 16), (2, 1), 1)
    assert (str(only.instruction), str(only.a)) == (
        "#schedule.instruction<coopmat 8x8x8>",
        "#schedule.staged<padding = 8, vector = 8>",
    )
    assert not list_schedules(product, replace(TILE, tile=(24, 16)))
    assert not list_schedules(product, replace(TILE, tile=(16, 12)))
    (turned,) = list_plans(product, replace(TILE, operands="ba"))
    assert turned.schedule.is_transposed
    assert (turned.contraction.m, turned.contraction.n) == (32, 48)
    assert not only.is_transposed


def depths(product: Contraction, *options: tuple[int, tuple[int, ...]]) -> list[int]:
    """Returns the depth along K for numbers of bytes and grids of subgroups."""
    tiles = [replace(TILE, k_bytes=size, subgroups=grid) for size, grid in options]
    return [schedule.tile[2] for schedule in list_schedules(product, *tiles)]


def test_the_depth_consists_of_instructions_of_all_slices_and_is_at_most_k(product: Contraction):
    assert depths(product, (8, (1, 1)), (16, (1, 1)), (40, (1, 1))) == [8, 8, 16]
    assert depths(product, (1024, (1, 1))) == [64]
    assert depths(product, (16, (1, 1, 2)), (48, (1, 1, 2))) == [16, 32]


def test_stages_beyond_the_first_have_the_buffers_of_the_tile(product: Contraction):
    listed = list_schedules(product, replace(TILE, stages=3, buffers=2))
    assert [each.stages.data for each in listed] == [3, 2, 1]
    found = [tuple(p.buffers.data for p in each.paths if isinstance(p, StagedAttr)) for each in listed]  # fmt: skip # noqa: E501
    assert found == [(2, 2), (2, 2), (1, 1)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"direct": "b", "ahead": 1}, ("staged<padding = 8, vector = 8>", "direct<ahead = 1>")),
        # No more instructions ahead than a tile has
        ({"direct": "ab", "ahead": 9}, ("direct<ahead = 2>", "direct<ahead = 2>")),
        (
            {"fragments": "ab"},
            ("staged<padding = 0, vector = 8, layout = fragments>",) * 2,
        ),
        (
            {"panels": "b"},
            ("staged<padding = 8, vector = 8>", "staged<padding = 8, vector = 8, layout = panels>"),
        ),
    ],
)  # fmt: skip
def test_operands_are_packed_as_the_tile_says(
    options: dict[str, str], expected: tuple[str, str], product: Contraction
):
    (only,) = list_schedules(product, replace(TILE, **options))  # pyright: ignore[reportArgumentType]
    assert tuple(str(path).removeprefix("#schedule.") for path in only.paths) == expected


def test_slices_read_ahead_within_their_part_of_a_tile(product: Contraction):
    tile = replace(TILE, subgroups=(1, 1, 2), direct="ab", ahead=9)
    (only,) = list_schedules(product, tile)
    assert [path.ahead.data for path in only.paths] == [1, 1]


def test_unsuitable_tiles_are_left_out(product: Contraction, plan_product: PlanProduct):
    def count(**options: object) -> int:
        return len(list_plans(product, replace(TILE, **options)))  # pyright: ignore

    assert count() == 1
    assert (count(accumulator_bits=32), count(accumulator_bits=16)) == (1, 0)
    assert (count(rates={TYPES: 1.0}), count(rates={"s8 -> s32": 1.0})) == (1, 0)
    assert (count(most_m=48), count(most_m=47)) == (1, 0)
    assert count(direct="b", panels="b") == 0
    assert count(rows="a") == 0, "rows need a dequantized operand"
    # Operands outside of a dispatch cannot be packed.
    alone = take_contraction(plan_product, "matrices")
    assert list_plans(alone, TILE)
    for options in ({"direct": "b"}, {"fragments": "a"}, {"panels": "a"}):
        assert not list_plans(alone, replace(TILE, **options))


def test_a_plan_has_the_rates_of_its_tile_and_types(product: Contraction):
    rated = replace(TILE, rates={TYPES: 5.0}, alone={TYPES: 2.0}, streams={TYPES: 3.0})
    (planned,) = list_plans(product, rated)
    assert planned.rates == (5.0, 2.0, 3.0)
    streams = replace(LAVAPIPE, streams={TYPES: 4.0})
    (planned,) = list_plans(product, replace(rated, streams={}), target=streams)
    assert planned.rates.stream == 4.0


def test_edges_change_the_way_in_which_results_are_stored(plan_product: PlanProduct):
    def result(name: str, tile: tuple[int, int], edges: str = "components") -> str:
        given = replace(TILE, tile=tile, subgroups=(1, 1), edges=edges)
        (only,) = list_schedules(take_contraction(plan_product, name), given)
        return only.result.data

    assert result("uneven", (8, 8)) == "components"
    assert result("uneven", (8, 8), "") == "fragments"
    assert result("uneven", (16, 8)) == "fragments", "a single tile along M"
    assert result("uneven", (8, 24)) == "fragments", "a single tile along N"
    assert result("matrices", (8, 8)) == "fragments", "without edges"


def test_results_are_stored_by_a_function_if_components_are_unknown(plan_product: PlanProduct):
    uneven = take_contraction(plan_product, "uneven")
    unknown = replace(LAVAPIPE, component_map=())
    (only,) = list_plans(uneven, TILE, target=unknown)
    assert only.schedule.result.data == "elements"
    (only,) = list_plans(take_contraction(plan_product, "matrices"), TILE, target=unknown)
    assert only.schedule.result.data == "fragments"
    (only,) = list_plans(uneven, TILE, target=replace(unknown, features=frozenset()))
    assert only.schedule.result.data == "fragments"


def test_only_operands_in_a_dispatch_are_packable(product: Contraction, plan_product: PlanProduct):
    assert list(packable(product)) == ["a", "b"]
    assert list(packable(take_contraction(plan_product, "matrices"))) == []


def describe(pair: Sequence[StagedAttr]) -> list[tuple[int, int]]:
    return [(path.vector.data, path.padding.data) for path in pair]


def test_staged_paths_have_the_widest_vectors(plan_product: PlanProduct):
    """Rows of A end along K, rows of B along N; padding has 16 bytes."""
    product = take_contraction(plan_product, "matrices")
    assert describe(paths(product, (16, 8, 4), 16)) == [(4, 8), (8, 8)]
    assert describe(paths(product, (16, 4, 16), 16)) == [(8, 8), (4, 8)]
    assert describe(paths(product, (16, 16, 16), 2)) == [(2, 8), (2, 8)]
    odd = take_contraction(plan_product, "batches")
    assert describe(paths(odd, (8, 8, 8), 16)) == [(4, 4), (1, 4)]


def test_panels_help_operands_whose_rows_have_no_wide_vectors(plan_product: PlanProduct):
    def pack(name: str, operand: int, k: int) -> list[tuple[int, int]]:
        panels = in_panels(take_contraction(plan_product, name), operand, k)
        return describe([] if panels is None else [panels])

    assert pack("matrices", 0, 8) == pack("matrices", 1, 8) == []
    # Seven columns of f32, so four elements of a panel's row along K are loaded instead.
    assert pack("batches", 1, 8) == [(4, 4)]
    assert pack("batches", 1, 2) == [(2, 4)]
    assert pack("batches", 0, 8) == []


def test_invocations_compute_blocks_within_the_registers(plan_product: PlanProduct):
    product = take_contraction(plan_product, "batches")
    small = replace(LAVAPIPE, scalar_results=4, scalar_depth=8)
    (group,) = by_multiply_adds(product, small)
    schedules = [planned.schedule for planned in group]
    shapes = dict.fromkeys(each.instruction.sizes for each in schedules)
    assert list(shapes) == [(1, 4, 4), (4, 1, 4), (2, 2, 4), (1, 1, 4)]
    assert {each.stages.data for each in schedules} == {1, 2}
    # Eight lanes are two along M and four along N, for each subgroup.
    for each in schedules:
        (m, n, _), (rows, columns) = each.instruction.sizes, each.grid
        assert each.tile == (rows * 2 * m, columns * 4 * n, 8)
    assert len(schedules) == len(shapes) * 6 * 2


def test_dot_products_have_words_along_k(plan_product: PlanProduct):
    (group,) = by_dots(take_contraction(plan_product, "bytes"), replace(LAVAPIPE, scalar_depth=1))
    first = next(group).schedule
    assert (first.kind, first.instruction.sizes[2], first.tile[2]) == ("dot", 4, 4)
    assert first.stages.data == 1
    assert describe(first.paths) == [(4, 16), (4, 16)]  # pyright: ignore[reportArgumentType]
    (group,) = by_dots(take_contraction(plan_product, "bytes"), LAVAPIPE)
    assert next(group).schedule.instruction.sizes[2] == 8


def test_kinds_come_in_the_order_of_their_speed(product: Contraction):
    kinds = [next(group).schedule.kind for group in candidates_of(product, LAVAPIPE)]
    assert kinds == ["coopmat", "dot", "fma"]
