"""
Finds inputs that reach a line for the first time, at next to no cost.

Python 3.12 and later tell of each line once and are then told to keep quiet about it, so a line
costs only the first time. Older versions report no lines: damage there begins with the seeds alone.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any, TypeAlias

Line: TypeAlias = tuple[str, int]
"""A file and a line of it."""

TOOL = 4
"""One of the numbers that sys.monitoring leaves to anybody."""


class Coverage:
    """The lines of this package and of xDSL that have run in this process."""

    def __init__(self):
        self.lines: list[Line] = []
        """Reached for the first time since it was asked last."""
        monitoring: Any = getattr(sys, "monitoring", None)
        self.works = monitoring is not None
        if self.works:
            self._disable = monitoring.DISABLE
            monitoring.use_tool_id(TOOL, "fuzzing")
            monitoring.register_callback(TOOL, monitoring.events.LINE, self._line)
            monitoring.set_events(TOOL, monitoring.events.LINE)

    def _line(self, code: CodeType, line: int) -> object:
        if "xdsl" in code.co_filename:
            self.lines.append((code.co_filename, line))
        return self._disable

    def end(self) -> None:
        """Let another one begin."""
        if self.works:
            monitoring: Any = sys.monitoring  # pyright: ignore
            monitoring.free_tool_id(TOOL)
            monitoring.restart_events()

    def news(self) -> list[Line]:
        """The lines that ran for the first time since the last call."""
        fresh, self.lines = self.lines, []
        return fresh
