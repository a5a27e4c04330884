"""
Finds inputs that reach a line for the first time, at almost no cost.

In Python 3.12 and later, the first report of a line disables further reports, so that only the
first execution costs time. Older versions report no lines, and only the seeds are damaged.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any, TypeAlias

Line: TypeAlias = tuple[str, int]
"""A file name and a line number."""

TOOL = 4
"""Identifier for sys.monitoring that Python leaves to applications."""


class Coverage:
    """Records the executed lines of this package and of xDSL in this process."""

    def __init__(self):
        self.lines: list[Line] = []
        """Lines reached for the first time since the last call of `news`."""
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
        """Ends the recording, so that another object can record."""
        if self.works:
            monitoring: Any = sys.monitoring  # pyright: ignore
            monitoring.free_tool_id(TOOL)
            monitoring.restart_events()

    def news(self) -> list[Line]:
        """Returns the lines that ran for the first time since the last call."""
        fresh, self.lines = self.lines, []
        return fresh
