"""
How many workgroups a command launches: one to three numbers, `4`, `4x2` or `4,2,1`.
"""

from __future__ import annotations

from xdsl_spirv.runtime.errors import ProgramError


def parse_grid(text: str) -> tuple[int, int, int]:
    """The workgroups along x, y and z; an axis that is left out has one."""
    parts = text.replace(",", "x").split("x")
    if len(parts) > 3 or not all(p.isdecimal() and p.isascii() and int(p) > 0 for p in parts):
        raise ProgramError(
            f"--grid {text} is no grid",
            "",
            "write one to three numbers from 1 on, as in 4, 4x2 or 4,2,1",
        )
    x, y, z = map(int, (*parts, 1, 1)[:3])
    return x, y, z
