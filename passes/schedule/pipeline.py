"""
The stages of a loop along K: by how many tiles each of them runs ahead of the multiplication.

    read: global memory -> registers     write: -> Workgroup memory     load: -> fragments

| schedule                   | read | write | load | stages of an iteration                      |
|----------------------------|------|-------|------|---------------------------------------------|
| nothing staged             | 0    | 0     | 0    | multiply                                    |
| a K tile that is all of K  | 0    | 0     | 0    | read, write, barrier, multiply              |
| stages = 1                 | 0    | 0     | 0    | read, barrier, write, barrier, multiply     |
| stages = 2                 | 1    | 0     | 0    | read, barrier, write, barrier, multiply     |
| stages = 2, first = store  | 1    | 0     | 0    | barrier, write, barrier, read, multiply     |
| stages = 2, buffers = 2    | 1    | 1     | 0    | read, multiply, write, barrier              |
| stages = s, buffers = 2,   | s    | 1     | 1    | read, write, barrier, load, multiply        |
| ahead = 1 (first = store)  |      |       |      | (write, read, barrier, load, multiply)      |

There are no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import lcm


class Stage(Enum):
    """A step of an iteration: a move of a tile, its multiplication, or a barrier."""

    READ = "read"
    WRITE = "write"
    LOAD = "load"
    MULTIPLY = "multiply"
    BARRIER = "barrier"


READ, WRITE, LOAD, MULTIPLY, BARRIER = Stage


@dataclass(frozen=True)
class Pipeline:
    """By how many K tiles the stages run ahead of the multiplication, and their order."""

    read: int
    write: int
    load: int
    stages: tuple[Stage, ...]

    def tiles_ahead(self, stage: Stage) -> int:
        """Counts the tiles by which a stage is ahead of the multiplication."""
        return {READ: self.read, WRITE: self.write, LOAD: self.load}.get(stage, 0)

    @property
    def buffers(self) -> int:
        """Tiles of an operand in Workgroup memory."""
        return 1 + self.write

    @property
    def unroll(self) -> int:
        """The number of tiles in an iteration: each names its buffer; registers alternate."""
        return lcm(self.buffers, max(1, self.read - self.write))


UNSTAGED = Pipeline(0, 0, 0, (MULTIPLY,))
ONE_TILE = Pipeline(0, 0, 0, (READ, WRITE, BARRIER, MULTIPLY))
IN_TURN = Pipeline(0, 0, 0, (READ, BARRIER, WRITE, BARRIER, MULTIPLY))
READ_AHEAD = Pipeline(1, 0, 0, (READ, BARRIER, WRITE, BARRIER, MULTIPLY))
WRITTEN_FIRST = Pipeline(1, 0, 0, (BARRIER, WRITE, BARRIER, READ, MULTIPLY))
TWO_BUFFERS = Pipeline(1, 1, 0, (READ, MULTIPLY, WRITE, BARRIER))


def loaded_ahead(stages: int, write_first: bool) -> Pipeline:
    """The pipeline of `stages` tiles in flight whose fragments are loaded a tile ahead."""
    moves = (WRITE, READ) if write_first else (READ, WRITE)
    return Pipeline(stages, 1, 1, (*moves, BARRIER, LOAD, MULTIPLY))
