"""Writes the code of a scan: each element is combined with all elements before it along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.passes.kernel.elements import run_body
from xdsl_spirv.passes.kernel.tile_code import Layout
from xdsl_spirv.passes.kernel.tile_values import Held, Stored, TileValue, spots_of


def scan(
    op: tile.ScanOp,
    tiles: Sequence[TileValue],
    layout: Layout,
    outside: Callable[[SSAValue], SSAValue],
) -> list[Held]:
    """
    Returns the results of a `tile.scan` in a layout. `outside` maps values of the program that the
    function of elements uses to values of the kernel.

    Each round combines the elements with the elements at distance 1, 2, 4, ... before them, and
    reads these from Workgroup memory.
    """
    held = [Held(value.b, value.type, layout, value.in_home(layout)) for value in tiles]
    size, distance = tiles[0].type.shape[op.axis.value.data], 1
    while distance < size:
        held = _combine_at_distance(op, held, layout, distance, outside)
        distance *= 2
    return held


def _combine_at_distance(
    op: tile.ScanOp,
    tiles: Sequence[Held],
    layout: Layout,
    distance: int,
    outside: Callable[[SSAValue], SSAValue],
) -> list[Held]:
    b, axis = tiles[0].b, op.axis.value.data
    size, move = tiles[0].type.shape[axis], b.minus if op.reverse is None else b.plus
    stored = [Stored(value).fill() for value in tiles]
    for place in stored:
        b.will_read(place.memory)
    results: list[list[SSAValue]] = [[] for _ in tiles]
    for spot in spots_of(layout):
        at = list(b.coordinates(spot))
        other = move(at[axis], distance)
        exists = b.below(other, size)  # An index before the first is a large unsigned number.
        at[axis] = b.index_inside(exists, other)
        before = [b.load(place.memory, at) for place in stored]
        own = [value.at(spot) for value in tiles]
        combined = run_body(op.body.block, (*before, *own), outside, b.copied)
        for result, new, old in zip(results, combined, own, strict=True):
            result.append(b.select(exists, new, old))
    for place in stored:
        b.give_back(place.memory)
    return [Held(b, value.type, layout, parts) for value, parts in zip(tiles, results, strict=True)]
