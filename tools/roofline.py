"""
Computes the minimum time of a layer from measured rates of a device (the roofline model).

A kernel moves each byte of its buffers at least once, and computes at most as fast as the fastest
measured kernel. The larger of the two times is the roofline time. The roofline time is unknown if
the target has no measured rates.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl_spirv.passes.schedule.paths import ATTENTION, COOPERATIVE_MATRIX, DOT
from xdsl_spirv.runtime.layers import Layer
from xdsl_spirv.targets import Target

TERA = 1e12


@dataclass(frozen=True)
class Roofline:
    """Minimum time in seconds, and the limiting resource: `memory`, `arithmetic`, or `unknown`."""

    seconds: float | None
    limit: str


UNKNOWN = Roofline(None, "unknown")


def roofline(layer: Layer, target: Target) -> Roofline:
    """Returns the roofline of a layer on a target."""
    if layer.bytes is None or layer.operations is None or target.measured_copy is None:
        return UNKNOWN
    moved = layer.bytes / target.measured_copy
    rate = rate_of(layer, target)
    if rate is None:
        return Roofline(moved, "memory")
    computed = layer.operations / (rate * TERA)
    return Roofline(moved, "memory") if moved >= computed else Roofline(computed, "arithmetic")


def rate_of(layer: Layer, target: Target) -> float | None:
    """Returns the TFLOPS of the fastest measured kernel with the layer's path and types."""
    a, _, result = layer.types.replace(" -> ", " x ").rpartition(" x ")
    a = a.partition(" x ")[0]
    if layer.path in (COOPERATIVE_MATRIX, ATTENTION):
        rates = [schedule.rates.get(f"{a} -> {result}") for schedule in target.schedules]
        return max((rate for rate in rates if rate), default=None)
    if layer.path == DOT:
        return target.rates.get("dot")
    return target.rates.get(f"fma {result}")
