"""
Finds inputs that reach a line for the first time, at almost no cost.

Python 3.12 and later report each line once, after which reports for it are disabled, so that a line
costs only the first time. Older versions report no lines: there, only the seeds are damaged.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any, TypeAlias

Line: TypeAlias = tuple[str, int]
"""A file and the number of a line."""

TOOL = 4
"""One of the tool numbers that sys.monitoring leaves free."""


class Coverage:
    """The lines of this package and of xDSL that have run in this process."""

    def __init__(self):
        self.lines: list[Line] = []
        """Lines reached for the first time since the last query."""
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
        """Ends the measurement, so that another one can begin."""
        if self.works:
            monitoring: Any = sys.monitoring  # pyright: ignore
            monitoring.free_tool_id(TOOL)
            monitoring.restart_events()

    def news(self) -> list[Line]:
        """Returns the lines that ran for the first time since the last call."""
        fresh, self.lines = self.lines, []
        return fresh
