"""Converts loads and stores: to boxes of views if pointers and masks are sums, else to gathers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnitAttr, i32, i64
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.dialects.schedule.symbolic_sizes import symbol
from xdsl_spirv.frontends.triton.forms import (
    Affine,
    Bounds,
    Mask,
    Pointer,
    Sum,
    bounds_of,
    terms_of,
)
from xdsl_spirv.frontends.triton.writing import Writer


class Box(NamedTuple):
    """A rectangular region of a view, in which a mask may still exclude elements."""

    view: SSAValue
    indices: list[SSAValue]
    is_cut: bool
    """True if the mask may exclude elements."""


def find_box(
    writer: Writer, views: Sequence[SSAValue], pointer: Pointer, mask: Mask | None
) -> Box | None:
    """
    Returns the box (rectangular region) that pointers and a mask describe, or None.

    The index of an axis counts from the lowest allowed index. A bound that moves with the
    workgroup (`offsets < n - start`) thus becomes the size `n` and the first index `start`.
    """
    if pointer.rest is not None:
        return None
    shape, offset = pointer.offset.shape, pointer.offset.start
    found = bounds_of(mask or Mask(shape, ()))
    if found is None:
        return None
    axes, conditions, uniform = found
    conditions = [*conditions, *map(writer.compare, uniform)]
    firsts: list[Sum] = []
    sizes: list[SSAValue] = []
    for size, step, bounds in zip(shape, pointer.offset.steps, axes, strict=True):
        lowest = _lowest(writer, bounds)
        offset += step * lowest
        firsts.append(-lowest)
        sizes.append(_size(writer, bounds, lowest, size))
    for condition in conditions:
        choice = arith.SelectOp(condition, sizes[0], writer.constant(0))
        sizes[0] = writer.add(choice)
    strides = [writer.index(step) for step in pointer.offset.steps]
    view = tile.ViewOp(views[pointer.argument], writer.index(offset), sizes, strides)
    is_cut = bool(conditions) or any(b.ends or b.first != 0 for b in axes)
    return Box(writer.add(view), [writer.index(first) for first in firsts], is_cut)


def _lowest(writer: Writer, bounds: Bounds) -> Sum:
    """Returns the lowest allowed index of an axis. The view starts at this index."""
    if bounds.first != 0 or not bounds.ends:
        return bounds.first
    taken: Sum = 0
    for atoms, factor in terms_of(bounds.ends[0]):
        taken += prod(map(symbol, atoms), start=factor) if factor < 0 else 0
    return taken if writer.is_not_negative(-taken) else 0


def _size(writer: Writer, bounds: Bounds, lowest: Sum, size: int) -> SSAValue:
    """
    Returns the size of an axis of the view: the distance from the index `lowest` to the least
    bound, or `size` without a bound.
    """
    counts = [end - lowest for end in bounds.ends or [size]]
    if len(counts) == 1 and isinstance(counts[0], int):
        return writer.constant(max(0, counts[0]))
    value = writer.index(counts[0])
    for count in counts[1:]:
        value = writer.add(arith.MinSIOp(value, writer.index(count)))
    if all(writer.is_not_negative(count) for count in counts):
        return value
    return writer.add(arith.MaxSIOp(value, writer.constant(0)))


def flat_numbers(writer: Writer, pointer: Pointer) -> SSAValue:
    """Returns the indices of elements in the buffer, as a tile of i32."""
    known = pointer.offset.start != 0 or not pointer.offset.is_uniform
    if pointer.rest is None:
        return writer.tile(pointer.offset, i32)
    rest = narrow(writer, pointer.rest)
    return add_tiles(writer, pointer.offset, rest) if known else rest


def narrow(writer: Writer, indices: SSAValue) -> SSAValue:
    """Returns a tile of indices as i32."""
    found = tile.tile_of(indices)
    if found.element != i64:
        return indices
    cut = lambda values: writer.add(arith.TruncIOp(values[0], i32))  # noqa: E731
    return writer.map(found.shape, i32, [indices], cut)


def add_tiles(writer: Writer, form: Affine, rest: SSAValue) -> SSAValue:
    """Returns the sum of affine integers and a tile."""
    element = tile.tile_of(rest).element
    first = writer.scalar(form.start, element) if form.is_uniform else writer.tile(form, element)
    add = lambda values: writer.add(arith.AddiOp(values[0], values[1]))  # noqa: E731
    return writer.map(form.shape, element, [first, rest], add)


def load_box(writer: Writer, box: Box, shape: Sequence[int], outside: SSAValue | None) -> SSAValue:
    """
    Loads a box of the given shape. Elements outside the view are `outside`, or undefined if it is
    None.
    """
    constant = outside.owner if outside is not None else None
    value = constant.value if isinstance(constant, arith.ConstantOp) else None
    load = tile.LoadOp(box.view, box.indices, shape, value)  # pyright: ignore[reportArgumentType]
    if box.is_cut and value is None:
        load.properties["any"] = UnitAttr()
    return writer.add(load)


def as_row(pointer: Pointer, mask: Mask | None) -> tuple[Pointer, Mask | None]:
    """Converts a scalar pointer and mask to rows of one element."""
    offset = Affine.uniform(pointer.offset.start, (1,))
    return Pointer(pointer.argument, offset), mask and Mask((1,), mask.parts)
