"""
Bounds of a slice: where it begins in a dimension and how many elements it has.

Bounds count from either end and may lie beyond it; they and the dimension may be open sizes.
Conditions on open sizes are recorded, so that a run checks them.
"""

from __future__ import annotations

from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Extent,
    Size,
    SymbolicSize,
    ceil_div,
    least,
    surely_below,
)
from xdsl_spirv.frontends.onnx.nodes import Nodes

FAR = (1 << 31) - 1
"""A bound that stands for the end of a dimension."""


def span_of(b: Nodes, size: Size, start: Size, end: Size, step: int) -> tuple[Size, Size]:
    """Returns where a slice of a dimension begins, and how many elements it has."""
    if step == 0:
        b.refuse("a step of 0", "give another step")
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        # Backwards from before the start is from the start, other than in Python.
        start = max(start, -size) if step < 0 else start
        first, last, _ = slice(start, end if end > -(1 << 62) else None, step).indices(size)
        return (first, len(range(first, last, step)))
    if step > 0:
        first, span = _forward(b, size, start, end)
        return first, ceil_div(span, step)
    # The same forward in the reversed dimension.
    begin = _mirror_bound(b, size, start)
    if isinstance(begin, int) and begin > 0:
        # Backwards from before the start is from the start.
        b.insist_natural(size - 1)
        first = size - 1 if begin >= FAR - 1 else least(size - 1, begin)
        last = _place(b, size, _mirror_bound(b, size, end))
        span = last - first
        if last != size:
            span = span - least(span, 0)
    else:
        first, span = _forward(b, size, begin, _mirror_bound(b, size, end))
    return size - 1 - first, ceil_div(span, -step)


def _mirror_bound(b: Nodes, size: Size, bound: Size) -> Size:
    """A bound of a slice backwards as one of the reversed dimension."""
    if isinstance(bound, int):
        return -1 - bound
    if bound == size:
        return 0
    if surely_below(bound, 1):
        # Minus an open size counts from the end.
        b.insist_natural(size + bound)
        return -1 - bound
    b.insist_natural(bound)
    b.insist_natural(size - 1 - bound)
    return size - 1 - bound


def _forward(b: Nodes, size: Size, start: Size, end: Size) -> tuple[Size, Size]:
    """Returns the start and the length of a slice. Negative bounds count from the end."""
    first, last = _place(b, size, start), _place(b, size, end)
    if last == size or surely_below(first, last + 1):
        return first, last - first
    if surely_below(last - 1, first):
        return first, 0
    if not isinstance(start, int) or not isinstance(end, int):
        if surely_below(start, end + 1):
            return first, last - first
        if isinstance(first, int) and isinstance(last, SymbolicSize):
            return first, last - least(last, first)
        span = last - first
        if extents_of(span) <= extents_of(size):
            # If the span is at most the dimension's own size: nothing is between bounds that passed
            # each other.
            return first, span - least(span, 0)
        b.insist_natural(span)
        return first, span
    if (start < 0) == (end < 0):
        return first, last - first if start < end else 0
    if end < 0:
        return first, (size - first) - least(size - first, -end)
    return first, size - first + last - least(size, end - start)


def extents_of(size: Size) -> set[Extent]:
    """The open sizes that a size is made of."""
    return set(size.extents) if isinstance(size, SymbolicSize) else set()


def _place(b: Nodes, size: Size, place: Size) -> Size:
    """A bound counted from the start and within the dimension; an open one is insisted to be."""
    if isinstance(place, int):
        if abs(place) >= FAR:
            return size if place > 0 else 0
        if abs(place) == 1:
            b.insist_natural(size - 1)
        distance = least(size, abs(place)) if abs(place) > 1 else abs(place)
        return distance if place >= 0 else size - distance
    if surely_below(place, 1):
        # Minus an open size counts from the end.
        if isinstance(size, int):
            return size - least(-place, size)
        b.insist_natural(size + place)
        return size + place
    b.insist_natural(place)
    if isinstance(size, int):
        return least(place, size)
    b.insist_natural(size - place)
    return place
