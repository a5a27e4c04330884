"""
Notes which functions are called from its import on, and which modules were imported before.

It imports only modules that Python has loaded already, since their functions are not noted.
"""

import sys
from types import CodeType

EARLY = frozenset(sys.modules)

Place = tuple[str, int, str]
called: set[Place] = set()


def place(code: CodeType) -> Place:
    """Where a function is defined."""
    return code.co_filename, code.co_firstlineno, code.co_qualname


def _note(code: CodeType, offset: int) -> object:
    called.add(place(code))
    return sys.monitoring.DISABLE


sys.monitoring.use_tool_id(sys.monitoring.COVERAGE_ID, "watch")
sys.monitoring.register_callback(sys.monitoring.COVERAGE_ID, sys.monitoring.events.PY_START, _note)
sys.monitoring.set_events(sys.monitoring.COVERAGE_ID, sys.monitoring.events.PY_START)
