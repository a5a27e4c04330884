"""A tile passes each stage of a kernel's loop after the stages whose results it needs."""

from __future__ import annotations

import pytest

from xdsl_spirv.passes.schedule import pipeline
from xdsl_spirv.passes.schedule.pipeline import (
    ATTENTION,
    STAGED_ATTENTION,
    Pipeline,
    Stage,
    loaded_ahead,
)

CONTRACTIONS = [value for value in vars(pipeline).values() if isinstance(value, Pipeline)]
AHEAD = [loaded_ahead(stages, first) for stages in (2, 3, 4) for first in (False, True)]
KNOWN = [*CONTRACTIONS, *AHEAD, *ATTENTION.values(), *STAGED_ATTENTION.values()]

NEEDS = {
    Stage.WRITE: (Stage.READ,),
    Stage.LOAD: (Stage.WRITE,),
    Stage.MULTIPLY: (
        *(Stage.READ, Stage.WRITE, Stage.LOAD),
        *(Stage.POWERS, Stage.READ_VALUES, Stage.WRITE_VALUES),
    ),
    Stage.WRITE_KEYS: (Stage.READ_KEYS,),
    Stage.WRITE_VALUES: (Stage.READ_VALUES,),
    Stage.SCORES: (Stage.READ_KEYS, Stage.WRITE_KEYS),
    Stage.MAXIMA: (Stage.SCORES,),
    Stage.POWERS: (Stage.MAXIMA,),
}


@pytest.mark.parametrize("known", KNOWN, ids=lambda p: " ".join(s.value for s in p.stages))
def test_a_tile_passes_its_stages_in_order(known: Pipeline):
    # Before the loop, the first tiles pass the prefetching stages.
    done = {stage: set(range(known.tiles_ahead(stage))) for stage in known.stages}
    for iteration in range(6):
        for stage in known.stages:
            tile = iteration + known.tiles_ahead(stage)
            for needed in NEEDS.get(stage, ()):
                assert tile in done.get(needed, {tile}), f"{stage} of tile {tile} before {needed}"
            done[stage].add(tile)
    assert known.reach == max(map(known.tiles_ahead, known.stages))


def test_buffers_and_registers_take_turns():
    assert (pipeline.ONE_TILE.buffers, pipeline.ONE_TILE.unroll) == (1, 1)
    assert (pipeline.TWO_BUFFERS.buffers, pipeline.TWO_BUFFERS.unroll) == (2, 2)
    assert loaded_ahead(4, False).unroll == 6, "two buffers and three sets of registers"
