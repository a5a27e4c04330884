"""Finds operations with numbers of 64 bits."""

from __future__ import annotations

from xdsl.dialects.builtin import f64, i64
from xdsl.ir import Attribute, Operation

from xdsl_spirv.passes.analysis.ranges import element

PASS = "narrow-to-32-bits"

WIDE: frozenset[Attribute] = frozenset((i64, f64))

FLOAT_FEATURE = "float64"
"""
The feature that a target needs to compute in f64; integers become words if it has none of 64 bits.
"""


def touches(op: Operation) -> bool:
    """True if an operation or its body has 64-bit values."""
    return any(
        element(value.type) in WIDE
        for inner in op.walk()
        for value in (*inner.operands, *inner.results)
    )
