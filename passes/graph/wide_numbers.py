"""
Which operations have numbers of 64 bits, and what a target must have for them.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f64, i64
from xdsl.ir import Attribute, Operation

from xdsl_spirv.passes.analysis.ranges import element

PASS = "narrow-to-32-bits"

NEEDS: dict[Attribute, str] = {i64: "int64", f64: "float64"}
"""The feature that a target needs to compute in a type."""


def touches(op: Operation) -> bool:
    """Whether anything of 64 bits is in an operation or a body."""
    return any(
        element(value.type) in NEEDS
        for inner in op.walk()
        for value in (*inner.operands, *inner.results)
    )
