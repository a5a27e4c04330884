"""
Reduces values over the invocations of a subgroup, also on devices without group arithmetic.

Rotations by size/2, size/4, ... 1 give every invocation a bitwise equal result. Before the rotation
by d, invocations i and i + 2 d hold equal values. Invocations i and i + d then combine the same two
values in opposite orders, and the operation is commutative. The distance of a rotation is uniform,
so a device may rotate faster than shuffle (VK_KHR_shader_subgroup_rotate's proposal, 2.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.targets import Target

Combine = Callable[[SSAValue, SSAValue], SSAValue]
"""A commutative binary operation."""


GROUP_ARITHMETIC: dict[type[Operation], type[spv.GroupArithmetic]] = {
    arith.AddfOp: spv.GroupNonUniformFAddOp,
    arith.AddiOp: spv.GroupNonUniformIAddOp,
    arith.MulfOp: spv.GroupNonUniformFMulOp,
    arith.MuliOp: spv.GroupNonUniformIMulOp,
    arith.MaxnumfOp: spv.GroupNonUniformFMaxOp,
    arith.MinnumfOp: spv.GroupNonUniformFMinOp,
    arith.MaxSIOp: spv.GroupNonUniformSMaxOp,
    arith.MinSIOp: spv.GroupNonUniformSMinOp,
    arith.MaxUIOp: spv.GroupNonUniformUMaxOp,
    arith.MinUIOp: spv.GroupNonUniformUMinOp,
}
"""Group operation of each reduction, except `maximumf` and `minimumf`, which propagate NaN."""


def can_reduce(target: Target, kind: type[Operation]) -> bool:
    """True if a subgroup can reduce by the operation `kind` without Workgroup memory."""
    exchanges = {"subgroup-shuffle", "subgroup-rotate"} & target.features
    return bool(exchanges) or _arithmetic(target, kind) is not None


def _arithmetic(target: Target, kind: type[Operation]) -> type[spv.GroupArithmetic] | None:
    return GROUP_ARITHMETIC.get(kind) if "subgroup-arithmetic" in target.features else None


def reduce_subgroup(
    b: KernelEmitter, value: SSAValue, target: Target, kind: type[Operation], combine: Combine
) -> SSAValue:
    """
    Reduces a value over all invocations of a subgroup.

    Uses a group operation if the target has one for `kind`, else rotations, else shuffles.
    """
    arithmetic, size = _arithmetic(target, kind), target.subgroup_size
    if arithmetic is not None:
        return b.add(arithmetic(spv.Scope.Subgroup, spv.GroupOperation.Reduce, value))
    if "subgroup-rotate" not in target.features:
        return exchanged(b, value, 1, size, combine)
    distance = size // 2
    while distance:
        op = spv.GroupNonUniformRotateKHROp(spv.Scope.Subgroup, value, b.i32(distance))
        value = combine(value, b.add(op))
        distance //= 2
    return value


def exchanged(
    b: KernelEmitter, value: SSAValue, distance: int, size: int, combine: Combine
) -> SSAValue:
    """
    Reduces over the lanes whose indices differ by multiples of `distance`, by XOR shuffles.

    `distance` and the subgroup size `size` are powers of two.
    """
    while distance < size:
        value = given_away(b, value, value, distance, combine)
        distance *= 2
    return value


def given_away(
    b: KernelEmitter, kept: SSAValue, given: SSAValue, distance: int, combine: Combine
) -> SSAValue:
    """
    Sends `given` to the lane whose index is this lane's XOR `distance`. Returns `kept` combined
    with the value received from that lane.
    """
    op = spv.GroupNonUniformShuffleXorOp(spv.Scope.Subgroup, given, b.i32(distance))
    return combine(kept, b.add(op))


def reduce_by_halves(
    b: KernelEmitter, values: Sequence[SSAValue | None], lane: Index, size: int, combine: Combine
) -> SSAValue:
    """
    Reduces `count` values over `size` invocations. Invocation `lane` gets the total with the index
    `lane * count // size`.

    In each step, two invocations exchange halves of their values. `count` and `size` are powers of
    two, with `count` <= `size`. The last values may be None.
    """
    distance = size // 2
    while len(values) > 1:
        lower = b.below(b.remainder(lane, 2 * distance), distance)
        pairs = list(zip(values[: len(values) // 2], values[len(values) // 2 :], strict=True))
        kept = [x if x is None or y is None else b.select(lower, x, y) for x, y in pairs]
        given = [x if x is None or y is None else b.select(lower, y, x) for x, y in pairs]
        values = [
            None if x is None or y is None else given_away(b, x, y, distance, combine)
            for x, y in zip(kept, given, strict=True)
        ]
        distance //= 2
    (value,) = values
    assert value is not None
    return exchanged(b, value, 1, 2 * distance, combine)
