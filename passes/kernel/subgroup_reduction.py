"""
A subgroup's reduction where it has no group arithmetic: halves that are added to each other.

Rotations by size/2, size/4, ... 1 bring every invocation the same result, bit for bit: before each
step values repeat with the period of twice the distance, so that two invocations which add the same
pair add it in either order. The rotation's distance is uniform, which a device may do faster than a
shuffle (VK_KHR_shader_subgroup_rotate's proposal, 2.2).
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.dialects.spirv.group import GroupNonUniformShuffleXorOp
from xdsl_spirv.dialects.spirv.rotate import GroupNonUniformRotateKHROp
from xdsl_spirv.passes.emit.kernel import KernelEmitter

Combine = Callable[[SSAValue, SSAValue], SSAValue]
"""A commutative operation."""


def reduce_by_rotations(b: KernelEmitter, value: SSAValue, size: int, combine: Combine) -> SSAValue:
    """`value` of all `size` invocations of the subgroup, combined; `size` is a power of two."""
    distance = size // 2
    while distance:
        op = GroupNonUniformRotateKHROp(Scope.Subgroup, value, b.i32(distance))
        value = combine(value, b.add(op))
        distance //= 2
    return value


def reduce_by_shuffles(b: KernelEmitter, value: SSAValue, size: int, combine: Combine) -> SSAValue:
    """The same by exchanges with the invocation whose number differs in one bit."""
    return exchanged(b, value, 1, size, combine)


def exchanged(
    b: KernelEmitter, value: SSAValue, distance: int, size: int, combine: Combine
) -> SSAValue:
    """
    `value` of those invocations combined whose numbers differ in multiples of `distance` below
    `size`; both are powers of two.
    """
    while distance < size:
        op = GroupNonUniformShuffleXorOp(Scope.Subgroup, value, b.i32(distance))
        value = combine(value, b.add(op))
        distance *= 2
    return value
