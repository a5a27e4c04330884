"""
Describes how a contraction's operand is dequantized from packed planes, in units along K.

    %w = linalg.generic (n, b, h, j) ins(%q[n, b, j], %d[n, b]) { float(%q >> 4 * h & 15) * %d }
    %r = contraction %x[m, 32 * b + 16 * h + j], %w[n, b, h, j]

A plane is a tensor with one part of each block of weights, such as the scales. The innermost loops
of K, here h and j, form a unit: the elements that an invocation dequantizes at a time. The
invocation reads the contiguous elements of each plane that these loops index; the other loops
determine the address. `Plane.layout` counts in units of these elements: an address is one load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Self

from xdsl.dialects import arith, linalg, math
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerType,
    MemRefType,
    TensorType,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from xdsl_spirv.dialects.schedule import PackedViewOp, SelectedViewOp, bit_width, shaped_of
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic, is_multiple
from xdsl_spirv.passes.analysis.layout import Axis, Layout, Walk, layout_of
from xdsl_spirv.passes.analysis.pointwise import SCALAR_DIALECTS, body_ops, is_permutation
from xdsl_spirv.passes.analysis.sizes import extents

MOST = 32
"""Largest number of elements in a unit, which are dequantized together."""

VECTOR = 4
"""Number of elements along the innermost loop that are computed together."""

ON_BYTES = (arith.ShRUIOp, arith.ShLIOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp)
"""Operations that can be computed on the four bytes of a word at once."""

ON_WORDS = (*ON_BYTES, arith.ShRSIOp, arith.AddiOp, arith.SubiOp, arith.MuliOp)

OF_INTEGERS = (
    arith.ExtUIOp,
    arith.ExtSIOp,
    arith.UIToFPOp,
    arith.SIToFPOp,
    arith.BitcastOp,
)

ON_FLOATS = (
    arith.AddfOp,
    arith.SubfOp,
    arith.MulfOp,
    arith.NegfOp,
    arith.ExtFOp,
    arith.TruncFOp,
    math.FmaOp,
)


@dataclass(frozen=True)
class Plane:
    """
    A tensor (plane) of packed weights that the dequantization of an operand reads.

    A unit is the elements that are dequantized together. `loops` are the loops of a unit that
    index the plane, `count` is their number of iterations, and `inner` that of the innermost loop.
    `layout` addresses blocks of `count` elements by batch, by M or N, and by unit along K. If
    `apart` is not 0, a unit is divided into runs of 16 bytes that lie `apart` runs apart, and
    `layout` addresses runs.
    """

    value: SSAValue
    loops: tuple[int, ...]
    count: int
    inner: int
    layout: Layout
    apart: Size = 0
    by_data: bool = False
    """True if indices along M, N or K, and not only along the batch, depend on data."""

    @property
    def element_type(self) -> Attribute:
        return shaped_of(self.value).element_type

    @property
    def shape(self) -> tuple[Size, ...]:
        return extents(self.value)

    def panel_depth(self, units: int) -> int | None:
        """
        Returns the row length in elements of the plane's panels.

        A panel holds the data of `units` units along K of all rows, row after row. Returns None if
        the plane cannot be packed into panels.
        """
        if isinstance(view := self.value.owner, PackedViewOp):
            return view.packing.fragment_sizes[1]
        _, outer, inner = self.layout.walks
        rows, rest = self.shape[: len(outer)], self.shape[len(outer) :]
        if any(map(is_dynamic, self.shape)) or not rest or self.layout.start:
            return None
        row = prod(map(_known_size, rest)) // self.count
        own = [Axis(size, row * prod(rows[n:])) for n, size in enumerate(rows, 1)]
        if sorted(outer, key=lambda axis: -_known_size(axis.stride)) != own:
            return None
        offsets = {0}
        for axis in reversed(inner):
            length = min(_known_size(axis.size), units)
            offsets = {
                step * _known_size(axis.stride) + o for step in range(length) for o in offsets
            }
            units = ceil_div(units, length)
        depth = len(offsets)
        if sorted(offsets) != list(range(depth)) or row % depth:
            return None
        try:
            _in_panels(self.layout, depth, prod(map(_known_size, rows)))
        except NotInPanels:
            return None
        return depth * self.count


@dataclass(frozen=True)
class Units:
    """
    An operand of packed weights that is read in units of adjacent elements along K.

    A unit contains the elements of all innermost loops of K, whose sizes are `sizes`. `outer` are
    the sizes of the other loops of K. `planes` are the tensors that hold the packed bits.
    """

    sizes: tuple[int, ...]
    outer: tuple[int, ...]
    planes: tuple[Plane, ...]

    @property
    def size(self) -> int:
        """Number of elements in a unit, which are dequantized together."""
        return prod(self.sizes)

    def part(self, split: int) -> Self:
        """
        Returns the same operand in smaller units: the innermost loop of a unit is divided by
        `split`.
        """
        return replace(self, sizes=(*self.sizes[:-1], self.sizes[-1] // split))

    @property
    def units(self) -> int:
        """Number of units (elements that are dequantized together) along K."""
        return prod(self.outer)

    @cached_property
    def bits(self) -> int:
        """
        Number of bits of all planes for one unit. Data that several units share is divided among
        them.
        """
        shared = 0.0
        for plane in self.planes:
            own = [axis.size for axis in plane.layout.walks[2] if axis.stride]
            shared += bit_width(plane.element_type) * plane.count * prod(map(_known_size, own))
        return round(shared / self.units)


@dataclass(frozen=True)
class Unpacking(Units):
    """
    An operand that `op` computes from the planes.

    `counters` maps loops of the operation to loops of the unit. `around` maps its other loops
    to the loops of K outside of the unit.
    """

    op: linalg.ops.GenericOp
    counters: dict[int, int]
    around: dict[int, int]


def units_of_rows(value: SSAValue, layout: Layout, sizes: tuple[int, ...]) -> Units | None:
    """
    Describes an operand in memory in units along K, as if the operand were dequantized.

    `sizes` are the loop sizes of a unit. The operand is in rows, or in panels of 16 bytes. Returns
    None if the elements of a unit, or of a panel's row, are not contiguous, or if the operand is
    padded.
    """
    size, walks = prod(sizes), layout.walks
    *panels, row = walks[2] or (Axis(1, 0),)
    axes = [axis for walk in walks[:2] for axis in walk] + panels
    if layout.guards or len(panels) > 1 or row.stride != 1:
        return None
    run = _known_size(row.size) if panels else size
    k = prod(axis.size for axis in walks[2])
    places = (layout.start, *(axis.stride for axis in axes))
    if is_dynamic(k) or not all(is_multiple(place, run) for place in places) or k % size:
        return None
    outer = _known_size(k) // size
    unit = Axis(outer, size // run * (panels[0].stride if panels else run))
    rows = _in_units(replace(layout, walks=(*walks[:2], (unit,))), run)
    apart = panels[0].stride // run if panels else 0
    plane = Plane(value, tuple(range(len(sizes))), size, sizes[-1], rows, apart)
    return Units(sizes, (outer,), (plane,))


def _known_size(size: Size) -> int:
    assert isinstance(size, int)
    return size


def unpacks(op: Operation) -> bool:
    """
    True if an operation dequantizes: it computes floats from planes of narrow integers.

    The operation is elementwise and may read loop indices, except the last. Some of the loops index
    each plane. All loops index the result.
    """
    if not isinstance(op, linalg.ops.GenericOp) or len(op.outputs) != 1 or not op.inputs:
        return False
    *reads, write = (attribute.data for attribute in op.get_indexing_maps())
    if not is_permutation(write) or op.body.block.args[-1].first_use is not None:
        return False
    if any(kind != IteratorTypeAttr.parallel() for kind in op.get_iterator_types()):
        return False
    if not all(isinstance(value.type, TensorType | MemRefType) for value in op.operands):
        return False
    types = [value.type.element_type for value in op.operands]  # pyright: ignore
    if not isinstance(types[-1], Float16Type | BFloat16Type | Float32Type):
        return False
    if not any(isinstance(t, IntegerType) and t.width.data == 8 for t in types[:-1]):
        return False
    if any(bit_width(type) not in (8, 16, 32) for type in types):
        return False
    return all(map(_is_selection, reads)) and _is_body(op, reads, write.num_dims - 1)


def _is_body(op: linalg.ops.GenericOp, reads: Sequence[AffineMap], last: int) -> bool:
    block = op.body.block
    arguments = zip(block.args, reads, strict=False)
    along: set[SSAValue] = {x for x, read in arguments if AffineDimExpr(last) in read.results}
    for inner in body_ops(block):
        if isinstance(inner, linalg.ops.IndexOp):
            if inner.dim.value.data == last:
                return False
        elif inner.regions or inner.name.split(".")[0] not in SCALAR_DIALECTS:
            return False
        elif not along.isdisjoint(inner.operands):
            shifts = isinstance(inner, arith.ShLIOp | arith.ShRUIOp | arith.ShRSIOp)
            if not _is_on_vectors(inner) or (shifts and inner.operands[1] in along):
                return False
            along.update(inner.results)
    return True


def _is_selection(map: AffineMap) -> bool:
    """True if each result of a map is 0 or a loop, and no loop occurs twice."""
    loops = [e.position for e in map.results if isinstance(e, AffineDimExpr)]
    others = map.results.count(AffineConstantExpr(0))
    return len(loops) + others == len(map.results) and len(loops) == len(set(loops))


def _is_on_vectors(op: Operation) -> bool:
    if isinstance(op, (*ON_FLOATS, *OF_INTEGERS)):
        return True
    if not isinstance(op, ON_WORDS):
        return False
    (result,) = op.results
    narrow = isinstance(result.type, IntegerType) and result.type.width.data == 8
    return isinstance(op, ON_BYTES) or not narrow


def unpacking_of(
    op: linalg.ops.GenericOp,
    map: AffineMap,
    sizes: Sequence[Size],
    groups: Sequence[range],
    most: int = 16,
) -> Unpacking | None:
    """
    Returns the unpacking of the operand that a contraction's loops index by `map`.

    `sizes` are the sizes of the contraction's loops. `groups` has three ranges of loops: batch, M
    or N, and K. A unit that is a part of a loop has at most `most` elements. Returns None if the
    operation does not unpack planes in units along K.
    """
    if not unpacks(op) or not _is_selection(map):
        return None
    if op.get_indexing_maps().data[-1].data != AffineMap.identity(len(op.iterator_types)):
        return None
    *_, k = groups
    loops = [e.position for e in map.results if isinstance(e, AffineDimExpr)]
    if loops[len(loops) - len(k) :] != list(k) or any(is_dynamic(sizes[loop]) for loop in k):
        return None
    lengths = [_known_size(sizes[loop]) for loop in k]
    first, size = _unit_of(lengths, most)
    if size % VECTOR:
        return None
    unit = (*lengths[first:],) if first < len(lengths) else (size,)
    outer = tuple(lengths[:first])
    if first == len(lengths):
        outer = (*lengths[:-1], lengths[-1] // size)
    counters = {loops.index(k[first + n]): n for n in range(len(lengths) - first)}
    around = {loops.index(k[n]): n for n in range(first if first < len(lengths) else first - 1)}
    asked = {i.dim.value.data for i in op.body.block.ops if isinstance(i, linalg.ops.IndexOp)}
    if not asked <= {*counters, *around} or (unit and unit[-1] % VECTOR):
        return None
    planes = _planes(op, loops, sizes, groups, unit, first)
    return None if planes is None else Unpacking(unit, outer, planes, op, counters, around)


def _unit_of(lengths: Sequence[int], most: int) -> tuple[int, int]:
    """
    Returns the index of the first loop of K that belongs to a unit, and the unit's number of
    elements. `lengths` are the loops' numbers of iterations.

    If K has a single loop, or its last loop is too long, a unit is a part of the last loop. The
    index is then the number of loops.
    """
    first, size = len(lengths), 1
    while first and len(lengths) > 1 and size * lengths[first - 1] <= MOST:
        first -= 1
        size *= lengths[first]
    if first < len(lengths) or not lengths:
        return first, size
    return first, next(n for n in (16, 8, 4, 2, 1) if n <= most and lengths[-1] % n == 0)


def _planes(
    op: linalg.ops.GenericOp,
    loops: Sequence[int],
    sizes: Sequence[Size],
    groups: Sequence[range],
    unit: tuple[int, ...],
    first: int,
) -> tuple[Plane, ...] | None:
    """
    Returns the planes that `op` reads. `first` is the first loop of K in a unit, and `unit` are the
    sizes of the unit's loops. Returns None if the elements of a unit are not contiguous.
    """
    batch, own, k = groups
    split = first == len(k)
    inside = [k[-1]] if split else list(k[first:])
    around = range(k.start, k.stop - len(inside))
    planes: list[Plane] = []
    for value, attribute in zip(op.inputs, op.get_indexing_maps(), strict=False):
        places: list[AffineExpr] = [
            AffineDimExpr(loops[e.position]) if isinstance(e, AffineDimExpr) else e
            for e in attribute.data.results
        ]
        walked = [e.position if isinstance(e, AffineDimExpr) else None for e in places]
        own_loops = [loop for loop in walked if loop is not None and loop in inside]
        if walked[len(walked) - len(own_loops) :] != own_loops or own_loops != sorted(own_loops):
            return None
        numbers = tuple(inside.index(loop) for loop in own_loops)
        count = prod(unit[number] for number in numbers)
        shape = [
            sizes[loop] if loop is not None and is_dynamic(size) else size
            for loop, size in zip(walked, extents(value), strict=True)
        ]
        map = AffineMap(len(sizes), 0, tuple(places))
        layout = layout_of(map, shape, None, sizes, (batch, own, around))
        if split:
            parts = Axis(_known_size(sizes[k[-1]]) // unit[0], unit[0] if own_loops else 0)
            layout = replace(layout, walks=(*layout.walks[:2], (*layout.walks[2], parts)))
        by_data = False
        if isinstance(view := value.owner, SelectedViewOp):
            counted = shaped_of(view.numbers).get_num_dims()
            by_data = any(loop is not None and loop not in batch for loop in walked[:counted])
            # The index of a part is loaded, so that a batch of one moves the address, too.
            part = Axis(prod(shape[:counted]), prod(shape[counted:]))
            layout = replace(layout, walks=((part,), *layout.walks[1:]))
        last = unit[numbers[-1]] if numbers else 1
        layout = _in_units(layout, count)
        if isinstance(view := value.owner, PackedViewOp):
            _, _, rows, depth = view.packing.shape
            layout = _in_panels(layout, depth // count, rows)
        planes.append(Plane(value, numbers, count, last, layout, by_data=by_data))
    return tuple(planes)


class NotInPanels(ValueError):
    """Raised if a step along K would begin or end inside of a panel."""


def _in_panels(layout: Layout, depth: int, rows: int) -> Layout:
    """Converts a plane's layout from rows to panels of `rows` rows and `depth` units."""
    batch, outer, inner = layout.walks
    panel = depth * rows

    def along_k(axis: Axis) -> Walk:
        size, stride = _known_size(axis.size), _known_size(axis.stride)
        if stride % depth == 0:
            return (replace(axis, stride=stride // depth * panel),)
        if depth % (size * stride) == 0:
            return (axis,)
        length, rest = divmod(depth, stride)
        if rest or size % length:
            raise NotInPanels
        return Axis(size // length, panel), Axis(length, stride)

    walks = [tuple(part for axis in walk for part in along_k(axis)) for walk in (batch, inner)]
    row = min((_known_size(axis.stride) for axis in outer), default=1)
    own = tuple(replace(axis, stride=axis.stride // row * depth) for axis in outer)
    return Layout(layout.start, (walks[0], own, walks[1]))


def _in_units(layout: Layout, count: int) -> Layout:
    walks = tuple(
        tuple(replace(axis, stride=axis.stride // count) for axis in walk) for walk in layout.walks
    )
    return Layout(layout.start // count, walks)
