"""
Where the verdict differs from `spirv-val`'s, and why: one table, which docs/validation.md shows.

A row is a rule of ours that spirv-val does not check, or a message of spirv-val's (a part of it)
that nothing here checks. Everything else that differs is a bug, of ours until shown otherwise.
"""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """One known difference."""

    rule: str
    """Our rule, or empty."""
    message: str
    """A part of spirv-val's message, or empty."""
    reason: str


DIFFERENCES: tuple[Difference, ...] = ()


def known_difference(rule: str, message: str) -> str | None:
    """The reason for a difference that is in the table, None for one that is not."""
    for difference in DIFFERENCES:
        if rule and difference.rule == rule:
            return difference.reason
        if message and difference.message and difference.message in message:
            return difference.reason
    return None
