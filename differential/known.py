"""
Disagreements that are explained: bugs of drivers, found here, each with its kernel in the docs.

A test that finds one of these is not failed by it; one that no longer finds it says nothing, since
drivers are mended. docs/differential.md has the list with a minimal kernel each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl_spirv.differential.running import Disagreement


@dataclass(frozen=True)
class Known:
    """`pattern` matches what an output is called; `anchor` is the section of the docs."""

    anchor: str
    pattern: str
    cause: str


LAVAPIPE = [
    Known(
        "matrix-conversions",
        r"^Convert(SToF|FToS) .*coopmatrix<",
        "ConvertSToF and ConvertFToS of matrices take the sign from the type, not the instruction",
    ),
    Known(
        "rounding-of-binary64",
        r"^GL\.(Trunc|Round|RoundEven) : .*f64",
        "binary64 keeps its fraction from 2^31 on, and halves do not go to even",
    ),
]


def explanation(found: Disagreement) -> Known | None:
    """The known cause of a disagreement with lavapipe."""
    for known in LAVAPIPE:
        if re.search(known.pattern, found.output.what):
            return known
    return None
