"""Plans the kernel that packs an operand into fragments or panels."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import PackedSizes, PackingAttr, PackOp, StagedAttr, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    ceil_div,
    is_multiple,
    named_sizes,
    surely_below,
)
from xdsl_spirv.passes.analysis.contraction import element_type
from xdsl_spirv.passes.analysis.layout import layout_of
from xdsl_spirv.passes.analysis.sizes import extents, number
from xdsl_spirv.passes.schedule.kinds import KernelPlan
from xdsl_spirv.passes.schedule.plan import UNROLLED
from xdsl_spirv.passes.schedule.tiles import (
    PackedTile,
    StagedTile,
    column_walk,
    k_axis_of,
    staged_tile,
)
from xdsl_spirv.targets import Target


@dataclass(frozen=True)
class PackPlan(KernelPlan):
    """A kernel that packs an operand. `staged` is a workgroup's tile in Workgroup memory."""

    sizes: PackedSizes
    target: Target
    subgroups: int
    staged: StagedTile

    @property
    def packing(self) -> PackingAttr:
        return self.sizes.packing

    @property
    def invocations(self) -> int:
        return self.subgroups * self.target.subgroup_size

    @property
    def kernel_name(self) -> str:
        return f"pack_{named_sizes(self.sizes.extents[1:])}"


@dataclass(frozen=True)
class FragmentsPlan(PackPlan):
    """A kernel that packs into fragments. A workgroup packs `depth` elements along K."""

    depth: int
    tile: PackedTile

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """Number of workgroups along each axis: M or N, K, and batch."""
        batch, inner, outer, _ = self.sizes.shape
        _, size = self.packing.fragment_sizes
        return outer // self.subgroups, inner // (self.depth // size), batch


@dataclass(frozen=True)
class PanelsPlan(PackPlan):
    """
    A kernel that packs into panels. A workgroup packs `rows` rows of one panel.

    An invocation stores `vector` elements at a time.
    """

    rows: int
    vector: int

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """Number of workgroups along each axis: M or N, K, and batch."""
        batch, panels, rows, _ = self.sizes.shape
        return rows // self.rows, panels, batch


def plan_fragments(op: PackOp, target: Target) -> FragmentsPlan:
    """Plans the kernel that packs a tensor or memref into fragments."""
    sizes, element = _sizes_of(op), element_type(op.source)
    _, inner_count, outer_count, _ = sizes.shape
    outer_size, inner_size = own = sizes.packing.fragment_sizes
    model = target.model.packing
    subgroups = next(n for n in (model.subgroups, 2, 1) if is_multiple(outer_count, n))
    steps = next(n for n in (model.depth, 2, 1) if is_multiple(inner_count, n))
    shape, counts = (subgroups * outer_size, steps * inner_size), (subgroups, steps)
    staged = _stage_operand(op.source, sizes, shape, counts, own)
    tile = PackedTile(sizes.packing, element, target.subgroup_size)
    return FragmentsPlan(sizes, target, subgroups, staged, steps * inner_size, tile)


def plan_panels(op: PackOp, target: Target) -> PanelsPlan:
    """Plans the kernel that packs a tensor or memref into panels."""
    sizes, bytes = _sizes_of(op), bit_width(element_type(op.source)) // 8
    _, _, count, depth = sizes.packing.shape
    vector = _widest(bytes, depth)
    model = target.model.packing
    invocations = model.subgroups * target.subgroup_size
    most = min(UNROLLED * vector * invocations, model.tile_bytes // bytes) // depth
    rows = next(r for r in (64, 32, 16, 8, 4, 2, 1) if count % r == 0 and (r <= most or r == 1))
    # An operand that runs across K is transposed element by element.
    staged = _stage_operand(op.source, sizes, (rows, depth), (rows, 1), (1, vector))
    return PanelsPlan(sizes, target, model.subgroups, staged, rows, vector)


def _sizes_of(op: PackOp) -> PackedSizes:
    return op.packing.sized([number(value) for value in op.numbers])


def _stage_operand(
    source: SSAValue,
    sizes: PackedSizes,
    shape: tuple[int, int],
    counts: tuple[int, int],
    rows: tuple[int, int],
) -> StagedTile:
    """
    Returns the tile that a workgroup packs; `shape` is its size along M or N, and along K.

    The tile has `counts` fragments or rows. Vectors must divide `rows[0]` in a tile whose columns
    run along M or N, and `rows[1]` in a tile whose columns run along K.
    """
    packing, element = sizes.packing, element_type(source)
    layout = layout_of(packing.map.data, extents(source), None, sizes.sizes, packing.loops)
    axis, bytes = k_axis_of(layout), bit_width(element) // 8
    path = StagedAttr(16 // bytes, _widest(bytes, layout.run(column_walk(axis)), rows[axis]))
    pairs = list(zip(shape, sizes.extents[1:], strict=True))
    tile = staged_tile(path, element, pairs[0], pairs[1], layout)
    _, inner, outer, _ = sizes.shape
    tiles = outer // counts[0], inner // counts[1]
    # Tiles beyond the operand are packed as zeros.
    beyond = [
        not surely_below(number, ceil_div(extent, size) + 1)
        for number, (size, extent) in zip(tiles, pairs, strict=True)
    ]
    return replace(tile, beyond=(beyond[1 - axis], beyond[axis]))


def _widest(bytes: int, *rows: int) -> int:
    widths = (v for v in (16, 8, 4, 2) if v * bytes in (4, 8, 16))
    return next((v for v in widths if all(row % v == 0 for row in rows)), 1)
