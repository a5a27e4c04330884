"""Defines a kind of job that does nothing, to measure the overhead of engines."""

from __future__ import annotations

from typing import Any


def nothing(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the data unchanged."""
    return data
