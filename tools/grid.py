"""Parses a launch's grid size from texts such as `4`, `4x2` or `4,2,1`."""

from __future__ import annotations

from xdsl_spirv.runtime.errors import ProgramError

MOST = 2**32 - 1
"""Largest number of workgroups along an axis: SPIR-V uses 32-bit integers for the grid."""


def parse_grid(text: str) -> tuple[int, int, int]:
    """Parses the number of workgroups along x, y and z. A missing axis counts as 1."""
    parts = text.replace(",", "x").split("x")
    if len(parts) > 3 or not all(map(_is_count, parts)):
        raise ProgramError(
            f"--grid {text} is not a grid size",
            "",
            f"write one to three numbers from 1 to {MOST}, as in 4, 4x2 or 4,2,1",
        )
    x, y, z = map(int, (*parts, 1, 1)[:3])
    return x, y, z


def _is_count(text: str) -> bool:
    short = text.isdecimal() and text.isascii() and len(text) <= len(str(MOST))
    return short and 0 < int(text) <= MOST
