"""Each element of a tile is held by exactly one invocation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest
from xdsl.dialects.builtin import f16

from xdsl_spirv import targets
from xdsl_spirv.passes.kernel.tile_code import Layout, matrices, spread
from xdsl_spirv.targets.linear import Place

TARGET = targets.load("nvidia-h200")
LANES = TARGET.subgroup_size


def places_of(layout: Layout) -> Iterator[tuple[tuple[int, ...], Place]]:
    """Yields (subgroup, ..., lane) and an element's position, for each register of each lane."""
    counts = [count for count, _ in layout.groups]
    for *groups, lane in product(*map(range, counts), range(1 << len(layout.lanes))):
        bits = [bit for n, bit in enumerate(layout.lanes) if lane >> n & 1]
        steps = [
            tuple(g * s for s in step) for g, (_, step) in zip(groups, layout.groups, strict=True)
        ]
        for register in layout.registers:
            yield (*groups, lane), tuple(map(sum, zip(*bits, *steps, register, strict=True)))


def count_holders(layout: Layout) -> Counter[Place]:
    """Returns the number of invocations that hold each element."""
    return Counter(place for _, place in places_of(layout))


@pytest.mark.parametrize(
    ("shape", "subgroups"),
    [((64, 64), 4), ((16, 128), 2), ((48, 80), 4), ((4, 8, 32), 1), ((64, 32), 6)],
)
def test_a_tile_is_spread_over_all_invocations(shape: Sequence[int], subgroups: int) -> None:
    layout = spread(shape, TARGET, subgroups)
    odd = 3 if subgroups == 6 else 1
    assert count_holders(layout) == dict.fromkeys(product(*map(range, shape)), odd)
    neighbour = layout.lanes[0]
    assert neighbour == (*(0 for _ in shape[1:]), 1), "neighbours go to neighbours"
    assert layout.numbers[layout.registers[-1]] == len(layout.registers) - 1


def test_a_tile_smaller_than_the_invocations_is_held_several_times() -> None:
    assert count_holders(spread((4, 4), TARGET, 2)) == dict.fromkeys(product(range(4), range(4)), 4)


def test_an_axis_that_is_dropped_leaves_one_element_for_each_row() -> None:
    layout = spread((8, 64), TARGET, 1)
    rows = layout.drop_axis(1)
    assert set(count_holders(rows)) == {(row,) for row in range(8)}
    assert len(rows.registers) == 8 * 64 // LANES // (64 // LANES)
    turned = layout.select_axes((1, None, 0))
    assert count_holders(turned) == {(c, 0, r): n for (r, c), n in count_holders(layout).items()}


@pytest.mark.parametrize(("use", "tile"), [("A", (64, 32)), ("B", (32, 64)), ("Acc", (64, 64))])
def test_matrices_hold_a_tile_as_their_target_says(use: str, tile: tuple[int, int]) -> None:
    grid = 2, 2
    bits = 32 if use == "Acc" else 16
    matrix = matrices(TARGET, use, tile, (16, 16), grid, bits)
    # Subgroups of a row share A, subgroups of a column share B.
    assert matrix.counts == {"A": (2, 2), "B": (2, 2), "Acc": (2, 2)}[use]
    assert matrix.steps == {"A": (32, 0), "B": (0, 32), "Acc": (32, 32)}[use]
    assert str(matrix.type_of(f16)).count("16x16xf16") == 1
    layout = matrix.layout
    assert layout is not None
    copies = 1 if use == "Acc" else 2
    assert count_holders(layout) == dict.fromkeys(product(*map(range, tile)), copies)
    fragment = TARGET.fragment(use, (16, 16), bits)
    assert fragment is not None
    for (*groups, lane), place in places_of(layout):
        if not any(groups):
            inside = {fragment.position(lane, n) for n in range(fragment.component.size)}
            assert (place[0] % 16, place[1] % 16) in inside


def test_a_target_without_a_map_has_no_layout() -> None:
    unknown = replace(TARGET, component_map=())
    assert matrices(unknown, "Acc", (32, 32), (16, 16), (1, 1), 32).layout is None
