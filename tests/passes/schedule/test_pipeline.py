"""Stages of a loop along K: each tile is read, written and loaded before it is multiplied."""

from __future__ import annotations

import pytest

from xdsl_spirv.passes.schedule import pipeline
from xdsl_spirv.passes.schedule.pipeline import (
    LOAD,
    MULTIPLY,
    READ,
    WRITE,
    Pipeline,
    Stage,
    loaded_ahead,
)

KNOWN = [value for value in vars(pipeline).values() if isinstance(value, Pipeline)]
AHEAD = [loaded_ahead(stages, first) for stages in (2, 3, 4) for first in (False, True)]


@pytest.mark.parametrize("known", [*KNOWN, *AHEAD], ids=str)
def test_a_tile_passes_its_stages_in_order(known: Pipeline):
    done: dict[Stage, list[int]] = {stage: [] for stage in (READ, WRITE, LOAD, MULTIPLY)}
    # Before the loop, the first tiles pass the stages that run ahead.
    for stage in done:
        done[stage].extend(range(known.tiles_ahead(stage)))
    order = {stage: number for number, stage in enumerate(done)}
    for iteration in range(6):
        for stage in known.stages:
            if stage not in done:
                continue
            tile = iteration + known.tiles_ahead(stage)
            for earlier in known.stages:
                if earlier in order and order[earlier] < order[stage]:
                    assert tile in done[earlier], f"{stage} of tile {tile} before {earlier}"
            done[stage].append(tile)
    if WRITE in known.stages:
        assert known.write <= known.read


def test_buffers_and_registers_take_turns():
    assert (pipeline.ONE_TILE.buffers, pipeline.ONE_TILE.unroll) == (1, 1)
    assert (pipeline.TWO_BUFFERS.buffers, pipeline.TWO_BUFFERS.unroll) == (2, 2)
    assert loaded_ahead(4, False).unroll == 6, "two buffers and three sets of registers"
