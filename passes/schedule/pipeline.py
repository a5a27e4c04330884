"""
Defines the pipelines: the stages of a kernel's loop over tiles, in the order of an iteration.

`read+1` reads the tile after the tile that is multiplied. This module lists all pipelines.

    read: global memory -> registers     write: -> Workgroup memory     load: -> fragments

An attention has two products: `scores` multiplies queries by keys, and `multiply` multiplies
probabilities by values. Between them, `maxima` and `powers` compute probabilities from scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import lcm


class Stage(Enum):
    """A step of an iteration: a copy of a tile, a computation, or a barrier."""

    READ = "read"
    WRITE = "write"
    LOAD = "load"
    MULTIPLY = "multiply"
    BARRIER = "barrier"
    READ_KEYS = "read_keys"
    WRITE_KEYS = "write_keys"
    SCORES = "scores"
    MAXIMA = "maxima"
    POWERS = "powers"
    READ_VALUES = "read_values"
    WRITE_VALUES = "write_values"


@dataclass(frozen=True)
class Pipeline:
    """
    Stages of an iteration. Each has the number of tiles by which it runs ahead of the products.
    """

    steps: tuple[tuple[Stage, int], ...]

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(stage for stage, _ in self.steps)

    def tiles_ahead(self, stage: Stage) -> int:
        """Returns by how many tiles a stage precedes the multiplication."""
        return dict(self.steps).get(stage, 0)

    @cached_property
    def read(self) -> int:
        return self.tiles_ahead(Stage.READ)

    @cached_property
    def write(self) -> int:
        return self.tiles_ahead(Stage.WRITE)

    @cached_property
    def load(self) -> int:
        return self.tiles_ahead(Stage.LOAD)

    @property
    def reach(self) -> int:
        """Largest number of tiles by which a stage precedes the multiplication."""
        return max(ahead for _, ahead in self.steps)

    @property
    def buffers(self) -> int:
        """Number of an operand's tiles in Workgroup memory."""
        return 1 + self.write

    @property
    def unroll(self) -> int:
        """Number of tiles per iteration, so that each tile has fixed buffers and registers."""
        return lcm(self.buffers, max(1, self.read - self.write))


def pipeline(text: str) -> Pipeline:
    """Parses a pipeline such as `barrier write barrier read+1 multiply`."""
    steps = (word.partition("+") for word in text.split())
    return Pipeline(tuple((Stage(name), int(ahead or 0)) for name, _, ahead in steps))


UNSTAGED = pipeline("multiply")
ONE_TILE = pipeline("read write barrier multiply")
"""Pipeline if a K tile covers all of K."""
IN_TURN = pipeline("read barrier write barrier multiply")
READ_AHEAD = pipeline("read+1 barrier write barrier multiply")
WRITTEN_FIRST = pipeline("barrier write barrier read+1 multiply")
TWO_BUFFERS = pipeline("read+1 multiply write+1 barrier")


def loaded_ahead(stages: int, write_first: bool) -> Pipeline:
    """Returns a pipeline with `stages` tiles in flight that loads fragments one tile ahead."""
    moves = f"write+1 read+{stages}" if write_first else f"read+{stages} write+1"
    return pipeline(f"{moves} barrier load+1 multiply")


READS = {Stage.READ_KEYS: "k", Stage.READ_VALUES: "v"}
WRITES = {Stage.WRITE_KEYS: "k", Stage.WRITE_VALUES: "v"}
FIRST_STAGES = (*READS, Stage.BARRIER, *WRITES)
"""Order of an attention's stages in the prologue, for the tiles that are read ahead."""

ATTENTION = {
    "none": pipeline("read_keys scores maxima powers read_values multiply"),
    "values": pipeline("read_keys scores read_values maxima powers multiply"),
    "keys": pipeline("scores read_keys+1 read_values maxima powers multiply"),
}
"""Maps the schedule's `ahead` to the pipeline of an attention on matrices."""

LANES_ATTENTION = (
    pipeline("read_keys read_values scores maxima powers multiply"),
    pipeline("read_keys+1 read_values scores maxima powers multiply"),
    pipeline("read_keys+1 read_values+1 scores maxima powers multiply"),
)
"""Pipelines of the loop of an attention without matrices. The index is the schedule's `ahead`."""

STAGED_ATTENTION = {
    1: pipeline(
        "barrier write_values read_keys+1 scores maxima powers "
        "barrier write_keys+1 read_values+1 multiply"
    ),
    2: pipeline(
        "barrier write_keys+1 write_values+1 read_keys+2 read_values+2 "
        "scores maxima powers multiply"
    ),
}
"""Maps the schedule's `buffers` to the pipeline of an attention with staged tiles."""
