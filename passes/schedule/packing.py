"""
What packing an operand into fragments means in counts, for one operand on one target.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import PackingAttr, StagedAttr, bit_width
from xdsl_spirv.passes.schedule.layout import layout_of
from xdsl_spirv.passes.schedule.plan import (
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
"""Fragments along K that a subgroup packs, where there are as many."""


@dataclass(frozen=True)
class PackPlan:
    """
    A kernel that packs: `subgroups` of a workgroup each pack fragments of `depth` elements along K.
    """

    packing: PackingAttr
    target: Target
    subgroups: int
    depth: int
    staged: StagedTile
    tile: PackedTile

    @property
    def invocations(self) -> int:
        return self.subgroups * self.target.subgroup_size

    @property
    def grid(self) -> tuple[int, int, int]:
        """Workgroups along M or N, along K, and of the batch."""
        batch, inner, outer, _ = self.packing.shape
        _, size = self.packing.fragment_sizes
        return outer // self.subgroups, inner * size // self.depth, batch


def plan_packing(source: SSAValue, packing: PackingAttr, target: Target) -> PackPlan:
    """The kernel that packs `source`, a tensor or memref."""
    type = source.type
    assert isinstance(type, TensorType | MemRefType)
    element = type.element_type
    _, inner_count, outer_count, _ = packing.shape
    outer_size, inner_size = packing.fragment_sizes
    subgroups = next(n for n in (MOST_SUBGROUPS, 2, 1) if outer_count % n == 0)
    steps = next(n for n in (DEPTH, 2, 1) if inner_count % n == 0)
    sizes = [size.data for size in packing.sizes]
    layout = layout_of(packing.map.data, type.get_shape(), None, sizes, packing.loops)
    axis = k_axis_of(layout)
    run, row = layout.run(column_walk(axis)), inner_size if axis == 1 else outer_size
    bytes = bit_width(element) // 8
    widths = [v for v in (16, 8, 4, 2) if v * bytes in (4, 8, 16)]
    vector = next((v for v in widths if run % v == 0 and row % v == 0), 1)
    path = StagedAttr(padding=16 // bytes, vector=vector)
    _, outer, inner = packing.extents
    depth = steps * inner_size
    staged = staged_tile(path, element, (subgroups * outer_size, outer), (depth, inner), layout)
    tile = PackedTile(packing, element, target.subgroup_size)
    return PackPlan(packing, target, subgroups, depth, staged, tile)
