"""
Whether kernels hold components of cooperative matrices where the target's component map says.

Vulkan leaves the map to the implementation, so a program of such kernels is right on no other.
"""

from __future__ import annotations

from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation

from xdsl_spirv.dialects.schedule import SCHEDULE, AttentionAttr, ContractionAttr, DirectAttr
from xdsl_spirv.passes.analysis.contraction import contraction_of


def relies_on_component_map(module: Operation) -> bool:
    """Whether the kernel of any scheduled operation of a module does."""
    return any(SCHEDULE in op.attributes and _relies(op) for op in module.walk())


def _relies(op: Operation) -> bool:
    """Whether invocations compute fragments' components where they hold them."""
    schedule = op.attributes[SCHEDULE]
    if isinstance(schedule, AttentionAttr):
        return schedule.in_registers
    if not isinstance(schedule, ContractionAttr) or not isinstance(op, LinalgStructuredOperation):
        return False
    if schedule.result.data == "components":
        return True
    direct = [isinstance(path, DirectAttr) for path in (schedule.a, schedule.b)]
    return any(direct) and any(
        unpacking is not None and is_direct
        for unpacking, is_direct in zip(contraction_of(op).unpackings, direct, strict=True)
    )
