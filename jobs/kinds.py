"""The kind of job that costs nothing: an engine's own overhead is measured with it."""

from __future__ import annotations

from typing import Any


def nothing(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the data as it is."""
    return data
