"""
Reports the results of a command as one JSON object on standard output, with `--json`.

With `--json`, the text for people is not printed. The help of `--json` lists the fields. Errors
and exit statuses do not change.
"""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from contextvars import ContextVar
from enum import Enum
from os import PathLike, fspath
from typing import Any

_NOTES: ContextVar[dict[str, Any] | None] = ContextVar("notes", default=None)


def is_wanted() -> bool:
    """True if a JSON report replaces the printed text."""
    return _NOTES.get() is not None


def note(**fields: object) -> None:
    """Adds fields to the JSON report, if there is one."""
    notes = _NOTES.get()
    if notes is not None:
        notes |= {name: plain(value) for name, value in fields.items()}


def note_row(table: str, row: object) -> None:
    """Adds a row to a table of the JSON report. Does nothing without a JSON report."""
    notes = _NOTES.get()
    if notes is not None:
        notes.setdefault(table, []).append(plain(row))


def reported(run: Callable[[], int]) -> int:
    """Runs a command, and prints its JSON report instead of its text. Returns its exit status."""
    notes: dict[str, Any] = {}
    token = _NOTES.set(notes)
    try:
        with redirect_stdout(io.StringIO()):
            status = run()
    finally:
        _NOTES.reset(token)
    print(json.dumps(notes, indent=2), file=sys.stdout)
    return status


def plain(value: object) -> Any:
    """Converts a value to JSON types. A dataclass becomes an object, with its property `passed`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        passed = getattr(value, "passed", None)
        return fields | ({} if passed is None else {"passed": bool(passed)})
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    listed = getattr(value, "tolist", None)
    return plain(listed()) if listed is not None else str(value)
