"""A layout gives the address of each element that a contraction's loops read."""

from __future__ import annotations

from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest
from xdsl.ir.affine import AffineDimExpr, AffineMap

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, static
from xdsl_spirv.passes.analysis.layout import (
    Axis,
    Guard,
    Layout,
    Linear,
    NotLinear,
    join_axes,
    layout_of,
    linear,
    walk_size,
)


def addresses(layout: Layout) -> list[Size]:
    """Returns the addresses of all indices of a layout's loops, the first loop outermost."""
    axes = [axis for walk in layout.walks for axis in walk]
    sizes, strides = (np.array([getattr(a, of) for a in axes], int) for of in ("size", "stride"))
    return [layout.start + int(at @ strides) for at in product(*map(range, sizes))]


@pytest.mark.parametrize("seed", range(20))
def test_layouts_follow_the_index_map(seed: int):
    draw = Random(seed)
    sizes = [draw.choice([1, 2, 3, 5]) for _ in range(5)]
    groups = [range(0, 1), range(1, 3), range(3, 5)]
    order = draw.sample(range(5), 5)
    strides = [draw.choice([1, 1, 2]) for _ in order]
    map = AffineMap(5, 0, tuple(AffineDimExpr(o) * s for o, s in zip(order, strides, strict=True)))
    shape = [(sizes[o] - 1) * s + 1 for o, s in zip(order, strides, strict=True)]
    layout = layout_of(map, shape, None, sizes, groups)
    numbers = np.arange(prod(shape)).reshape(shape)
    read = numbers[tuple(slice(None, None, s) for s in strides)]
    assert layout.guards == ()
    assert addresses(layout) == read.transpose(np.argsort(order)).ravel().tolist()
    counts = [walk_size(walk) for walk in layout.walks]
    whole = np.array(addresses(layout)).reshape(static(counts))
    for walk in range(3):
        run = layout.run(walk)
        pieces = whole.take(range(0, whole.shape[walk], run), walk) // run
        assert addresses(layout.in_vectors(walk, run)) == pieces.ravel().tolist()


def test_contiguous_loops_are_joined_to_one_axis():
    assert join_axes([Axis(2, 12), Axis(3, 4), Axis(4, 1)]) == (Axis(24, 1),)
    assert join_axes([Axis(2, 16), Axis(1, 99), Axis(4, 1)]) == (Axis(2, 16), Axis(4, 1))
    assert join_axes([Axis(2, 4, (1,)), Axis(4, 1, (0,))]) == (Axis(2, 4, (1,)), Axis(4, 1, (0,)))
    assert join_axes([]) == ()


def test_the_border_of_a_padded_window_is_guarded():
    map = AffineMap.from_callable(lambda i, r: (i + r,))
    layout = layout_of(map, [8], [1], [8, 3], [range(0), range(1), range(1, 2)])
    assert layout == Layout(-1, ((), (Axis(8, 1, (1,)),), (Axis(3, 1, (1,)),)), (Guard(-1, 8),))
    assert layout.run(2) == 1, "no piece may cross the border"
    inside = layout_of(map, [10], None, [8, 3], [range(0), range(1), range(1, 2)])
    assert inside.guards == ()


def test_a_linear_index_has_a_span():
    map = AffineMap.from_callable(lambda i, j: (i * 3 + j * -2 + 5,))
    index = linear(map.results[0], 2)
    assert index == Linear(5, (3, -2))
    assert index.span([4, 6]) == (-5, 14)
    with pytest.raises(NotLinear, match="is not a sum of multiples of loops"):
        linear(AffineMap.from_callable(lambda i, j: (i // 2,)).results[0], 2)
