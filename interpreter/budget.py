"""A bound on how long a program may run: a loop that never ends becomes an error."""

from __future__ import annotations

from xdsl.ir import Operation

from xdsl_spirv.interpreter.errors import InterpreterError

BLOCKS = 10_000_000
"""Number of blocks that a checked or scheduled launch executes unless its options say otherwise."""


class Budget:
    """
    Number of blocks that a launch may still execute; a block that many lanes share counts once.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self.left = limit

    @classmethod
    def of(cls, limit: int | None) -> Budget | None:
        """A budget of `limit` blocks; None if there is no limit."""
        return None if limit is None else cls(limit)

    def take(self, op: Operation) -> None:
        """Count one block; `InterpreterError` when none is left."""
        self.left -= 1
        if self.left < 0:
            raise InterpreterError(
                f"STEP-01: more than {self.limit} blocks were executed",
                op,
                "the loop around this branch may never end; else raise Options.max_steps",
            )
