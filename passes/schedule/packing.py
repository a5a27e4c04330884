"""Derives counts of packing one operand into fragments or panels on one target."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import PackedSizes, PackingAttr, PackOp, StagedAttr, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    ceil_div,
    is_multiple,
    named_sizes,
    surely_below,
)
from xdsl_spirv.passes.analysis.layout import layout_of
from xdsl_spirv.passes.analysis.sizes import extents, number
from xdsl_spirv.passes.schedule.kinds import KernelPlan
from xdsl_spirv.passes.schedule.plan import UNROLLED
from xdsl_spirv.passes.schedule.tiles import (
    INNER,
    PackedTile,
    StagedTile,
    column_walk,
    k_axis_of,
    staged_tile,
)
from xdsl_spirv.targets import Target

MOST_SUBGROUPS = 4
"""Subgroups of a workgroup, side by side along M or N."""

DEPTH = 4
"""Largest number of fragments along K that a subgroup packs."""

TILE_BYTES = 16384
"""Bytes of a panel that a workgroup transposes at a time."""


@dataclass(frozen=True)
class PackPlan(KernelPlan):
    """
    A kernel that packs: `subgroups` of a workgroup each pack fragments of `depth` elements along K.
    """

    sizes: PackedSizes
    target: Target
    subgroups: int
    depth: int
    staged: StagedTile
    tile: PackedTile

    @property
    def packing(self) -> PackingAttr:
        return self.sizes.packing

    @property
    def invocations(self) -> int:
        return self.subgroups * self.target.subgroup_size

    @property
    def kernel_name(self) -> str:
        return f"pack_{named_sizes(self.sizes.extents[1:])}"

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """Workgroups along M or N, along K, and of the batch."""
        batch, inner, outer, _ = self.sizes.shape
        _, size = self.packing.fragment_sizes
        return outer // self.subgroups, inner // (self.depth // size), batch


@dataclass(frozen=True)
class PanelPlan(KernelPlan):
    """
    A kernel that packs into panels: a workgroup turns `rows` rows of one panel, all of its K tile.

    An invocation moves `vector` elements at a time into the panel.
    """

    packing: PackingAttr
    target: Target
    subgroups: int
    rows: int
    vector: int
    staged: StagedTile

    @property
    def invocations(self) -> int:
        return self.subgroups * self.target.subgroup_size

    @property
    def kernel_name(self) -> str:
        return f"pack_{named_sizes(self.packing.extents[1:])}"

    @property
    def grid(self) -> tuple[int, int, int]:
        """Workgroups along M or N, along K, and of the batch."""
        batch, panels, rows, _ = self.packing.shape
        return rows // self.rows, panels, batch


def plan_packing(op: PackOp, target: Target) -> PackPlan | PanelPlan:
    """Plans the kernel that packs tensors or memrefs."""
    source, packing = op.source, op.packing
    if packing.is_panels:
        return _plan_panels(source, packing, target)
    type = source.type
    assert isinstance(type, TensorType | MemRefType)
    element = type.element_type
    sizes = packing.sized([number(value) for value in op.numbers])
    _, inner_count, outer_count, _ = sizes.shape
    outer_size, inner_size = packing.fragment_sizes
    subgroups = next(n for n in (MOST_SUBGROUPS, 2, 1) if is_multiple(outer_count, n))
    steps = next(n for n in (DEPTH, 2, 1) if is_multiple(inner_count, n))
    layout = layout_of(packing.map.data, extents(source), None, sizes.sizes, packing.loops)
    axis = k_axis_of(layout)
    run, row = layout.run(column_walk(axis)), inner_size if axis == 1 else outer_size
    bytes = bit_width(element) // 8
    vector = next((v for v in _widths(bytes) if run % v == 0 and row % v == 0), 1)
    path = StagedAttr(padding=16 // bytes, vector=vector)
    _, outer, inner = sizes.extents
    depth = steps * inner_size
    sizes_of_tile = (subgroups * outer_size, outer), (depth, inner)
    counts = outer_count // subgroups, inner_count // steps
    staged = _reaching(staged_tile(path, element, *sizes_of_tile, layout), *counts)
    tile = PackedTile(packing, element, target.subgroup_size)
    return PackPlan(sizes, target, subgroups, depth, staged, tile)


def _plan_panels(source: SSAValue, packing: PackingAttr, target: Target) -> PanelPlan:
    type = source.type
    assert isinstance(type, TensorType | MemRefType)
    element = type.element_type
    bytes = bit_width(element) // 8
    _, panels, count, depth = packing.shape
    vector = next((v for v in _widths(bytes) if depth % v == 0), 1)
    invocations = MOST_SUBGROUPS * target.subgroup_size
    most = min(UNROLLED * vector * invocations, TILE_BYTES // bytes) // depth
    rows = next(r for r in (64, 32, 16, 8, 4, 2, 1) if count % r == 0 and (r <= most or r == 1))
    sizes = [size.data for size in packing.sizes]
    layout = layout_of(packing.map.data, type.get_shape(), None, sizes, packing.loops)
    axis = k_axis_of(layout)
    run = layout.run(INNER)
    # Across K single elements are turned: no wider piece of memory is a piece of a panel's row.
    read = next((v for v in _widths(bytes) if vector % v == 0 and run % v == 0), 1)
    path = StagedAttr(padding=16 // bytes, vector=read if axis == 1 else 1)
    _, outer, inner = packing.extents
    tile = staged_tile(path, element, (rows, outer), (depth, inner), layout)
    staged = _reaching(tile, count // rows, panels)
    return PanelPlan(packing, target, MOST_SUBGROUPS, rows, vector, staged)


def _reaching(tile: StagedTile, outer: Size, inner: Size) -> StagedTile:
    """The operand's tile if this many fragments are packed along M or N, and K, with zeros."""
    counts = (inner, outer) if tile.k_axis == 0 else (outer, inner)
    rows, columns = (
        not surely_below(count, ceil_div(size, own) + 1)
        for count, size, own in zip(counts, tile.extent, tile.shape, strict=True)
    )
    return replace(tile, beyond=(rows, columns))


def _widths(bytes: int) -> list[int]:
    """Returns the numbers of elements of `bytes` bytes that can be moved at once, largest first."""
    return [v for v in (16, 8, 4, 2) if v * bytes in (4, 8, 16)]
