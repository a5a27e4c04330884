"""Limits the number of executed blocks, so that an endless loop becomes an error."""

from __future__ import annotations

from xdsl.ir import Operation

from xdsl_spirv.interpreter.errors import InterpreterError

BLOCKS = 10_000_000
"""Default limit of executed blocks for a launch with checks or a schedule."""


class Budget:
    """Number of blocks that a launch may still execute. A block counts once for all its lanes."""

    def __init__(self, limit: int):
        self.limit = limit
        self.left = limit

    @classmethod
    def of(cls, limit: int | None) -> Budget | None:
        """Creates a budget of `limit` blocks. Returns None if there is no limit."""
        return None if limit is None else cls(limit)

    def take(self, op: Operation) -> None:
        """Counts one executed block. Raises `InterpreterError` at `op` if the budget is used up."""
        self.left -= 1
        if self.left < 0:
            raise InterpreterError(
                f"STEP-01: more than {self.limit} blocks were executed",
                op,
                "check that the loop around this branch ends, or increase Options.max_steps",
            )
