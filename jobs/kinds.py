"""Defines a kind of job that does nothing. It measures an engine's own overhead."""

from __future__ import annotations

from typing import Any


def nothing(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the data as it is."""
    return data
