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
    """
    A kernel that packs an operand into fragments, or into panels (fragments of one row).

    `staged` is a workgroup's tile in Workgroup memory. It has `counts` fragments along M or N, and
    along K.
    """

    sizes: PackedSizes
    target: Target
    subgroups: int
    staged: StagedTile
    counts: tuple[int, int]

    @property
    def packing(self) -> PackingAttr:
        return self.sizes.packing

    @property
    def tile(self) -> PackedTile:
        return PackedTile(self.packing, self.staged.element_type, self.target.subgroup_size)

    @property
    def depth(self) -> int:
        """Number of a workgroup's elements along K."""
        return self.counts[1] * self.packing.fragment_sizes[1]

    @property
    def vector(self) -> int:
        """Number of elements of a panel that an invocation stores at a time."""
        return _widest(self.staged.element_bytes, self.depth)

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """Number of workgroups along each axis: M or N, K, and batch."""
        batch, inner, outer, _ = self.sizes.shape
        return outer // self.counts[0], inner // self.counts[1], batch

    @property
    def invocations(self) -> int:
        return self.subgroups * self.target.subgroup_size

    @property
    def kernel_name(self) -> str:
        return f"pack_{named_sizes(self.sizes.extents[1:])}"


def plan_pack(op: PackOp, target: Target) -> PackPlan:
    """Plans the kernel that packs a tensor or memref."""
    sizes = op.packing.sized([number(value) for value in op.numbers])
    model, (outer_size, inner_size) = target.model.packing, op.packing.fragment_sizes
    _, inner_count, outer_count, _ = sizes.shape
    if op.packing.is_panels:
        bytes, subgroups = bit_width(element_type(op.source)) // 8, model.subgroups
        vector = _widest(bytes, inner_size)
        invocations = subgroups * target.subgroup_size
        most = min(UNROLLED * vector * invocations, model.tile_bytes // bytes) // inner_size
        few = (r for r in (64, 32, 16, 8, 4, 2, 1) if is_multiple(outer_count, r))
        counts = next(r for r in few if r <= most or r == 1), 1
        # An operand that runs across K is transposed element by element.
        run = 1, vector
    else:
        subgroups = next(n for n in (model.subgroups, 2, 1) if is_multiple(outer_count, n))
        counts = subgroups, next(n for n in (model.depth, 2, 1) if is_multiple(inner_count, n))
        run = outer_size, inner_size
    staged = _stage_operand(op.source, sizes, counts, run)
    return PackPlan(sizes, target, subgroups, staged, counts)


def _stage_operand(
    source: SSAValue,
    sizes: PackedSizes,
    counts: tuple[int, int],
    rows: tuple[int, int],
) -> StagedTile:
    """
    Returns the tile that a workgroup packs, of `counts` fragments along M or N, and along K.

    Vectors must divide `rows[0]` in a tile whose columns run along M or N, and `rows[1]` in a tile
    whose columns run along K.
    """
    packing, element = sizes.packing, element_type(source)
    layout = layout_of(packing.map.data, extents(source), None, sizes.sizes, packing.loops)
    axis, bytes = k_axis_of(layout), bit_width(element) // 8
    path = StagedAttr(16 // bytes, _widest(bytes, layout.run(column_walk(axis)), rows[axis]))
    shape = (count * size for count, size in zip(counts, packing.fragment_sizes, strict=True))
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
