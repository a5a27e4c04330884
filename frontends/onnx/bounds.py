"""
Computes the start and the length of slices.

Bounds may count from either end and may exceed the dimension. Bounds and dimensions may be
dynamic; conditions on dynamic sizes are recorded, so that a run checks them.
"""

from __future__ import annotations

from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    SymbolicSize,
    ceil_div,
    least,
    lesser,
    surely_below,
)
from xdsl_spirv.frontends.onnx.nodes import Nodes

FAR = (1 << 31) - 1
"""Bounds of at least this magnitude mean the end of a dimension."""


def span_of(b: Nodes, size: Size, start: Size, end: Size, step: int) -> tuple[Size, Size]:
    """Returns the start and the number of elements of a slice."""
    if step == 0:
        b.refuse("the step of a slice is 0", "give another step")
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        # Unlike in Python, the start of a backward slice is clamped to the dimension.
        start = max(start, -size) if step < 0 else start
        first, last, _ = slice(start, end, step).indices(size)
        return (first, len(range(first, last, step)))
    if step > 0:
        first, span = _forward(b, size, start, end)
        return first, ceil_div(span, step)
    # A backward slice is a forward slice of the reversed dimension.
    if isinstance(start, int) and isinstance(end, int) and start >= 0:
        first, span = _forward(b, size, -1 - start, -1 - end)
    else:
        first, last = (_reversed_place(b, size, bound) for bound in (start, end))
        if _is_from_the_end(b, start):
            # The start is clamped to the dimension.
            b.insist_natural(size - 1)
            first = lesser(first, size - 1)
        span = last - first
        span = span if last == size else span - least(span, 0)
    return size - 1 - first, ceil_div(span, -step)


def _reversed_place(b: Nodes, size: Size, bound: Size) -> Size:
    """Converts a bound of a backward slice to an index in the reversed dimension."""
    if isinstance(bound, int) and abs(bound) >= FAR:
        return 0 if bound > 0 else size
    if _is_from_the_end(b, bound):
        return lesser(-1 - bound, size)
    return size - 1 - lesser(bound, size - 1)


def _is_from_the_end(b: Nodes, bound: Size) -> bool:
    """True if a bound is negative. The sign of a dynamic bound must not depend on the inputs."""
    negative = surely_below(bound, 1) and bound != 0
    b.insist_natural(-1 - bound if negative else bound)
    return negative


def _forward(b: Nodes, size: Size, start: Size, end: Size) -> tuple[Size, Size]:
    """Returns the start and the length of a forward slice."""
    first, last = _place(b, size, start), _place(b, size, end)
    if last == size or surely_below(first, last + 1):
        return first, last - first
    if surely_below(last - 1, first):
        return first, 0
    if not isinstance(start, int) or not isinstance(end, int):
        if surely_below(start, end + 1) and (
            _is_from_the_end(b, start) == _is_from_the_end(b, end)
        ):
            return first, last - first
        if isinstance(first, int) and isinstance(last, SymbolicSize):
            return first, last - least(last, first)
        # The slice is empty if the end is before the start.
        span = last - first
        return first, span - least(span, 0)
    if (start < 0) == (end < 0):
        return first, last - first if start < end else 0
    if end < 0:
        return first, (size - first) - least(size - first, -end)
    return first, size - first + last - least(size, end - start)


def _place(b: Nodes, size: Size, place: Size) -> Size:
    """Converts a negative bound to an index from the start, and clamps it to the dimension."""
    if isinstance(place, int):
        if abs(place) >= FAR:
            return size if place > 0 else 0
        if abs(place) == 1:
            b.insist_natural(size - 1)
        distance = least(size, abs(place)) if abs(place) > 1 else abs(place)
        return distance if place >= 0 else size - distance
    if _is_from_the_end(b, place):
        return size - lesser(-place, size)
    return lesser(place, size)
