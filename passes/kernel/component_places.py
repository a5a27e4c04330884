"""The code that computes where an invocation's components lie, on a target that says so (CM-18)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.targets import Fragment


def lane_places(b: KernelEmitter, fragment: Fragment, lane: SSAValue) -> tuple[Index, Index]:
    """Returns the row and column offsets that follow from an invocation's lane number."""
    return moved_bits(b, lane, fragment.lane.bits_along(0)), moved_bits(
        b, lane, fragment.lane.bits_along(1)
    )


def moved_bits(
    b: KernelEmitter, number: Index, bits: Sequence[tuple[int, int]], total: Index = 0
) -> Index:
    """Adds the weights of a number's set bits to `total`; moves runs of adjacent bits at once."""
    while bits:
        (first, weight), count = bits[0], 1
        while count < len(bits) and bits[count] == (first + count, weight << count):
            count += 1
        part = b.remainder(b.divided(number, 1 << first), 1 << count)
        total = b.plus(total, b.times(part, weight))
        bits = bits[count:]
    return total
