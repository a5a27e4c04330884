"""Fragments of an attention's operands: from where an operand lies, or packed."""

from __future__ import annotations

from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import FlatViewOp, PackedViewOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes.analysis.layout import Layout
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.matrix_values import COLUMN_MAJOR, ROW_MAJOR, load_matrix
from xdsl_spirv.passes.kernel.packed import Share, fragment_type
from xdsl_spirv.passes.kernel.result_tile import address_along
from xdsl_spirv.passes.schedule.attention import AttentionPlan
from xdsl_spirv.passes.schedule.attention_packing import PackedOperand


def fragments_of(
    b: KernelEmitter, plan: AttentionPlan, name: str, batch: Index, lane: SSAValue
) -> RowFragments | PackedFragments:
    """The loader of q, k or v: from rows or from packed fragments, as the schedule says."""
    value = plan.value(name)
    assert value is not None
    if plan.path(name) == "rows":
        return RowFragments(b, plan, name, value, batch)
    owner = value.owner
    assert isinstance(owner, PackedViewOp)
    return PackedFragments(b, plan, name, owner.source, batch, lane)


class PackedFragments:
    """Loads packed fragments: one wide load for each invocation."""

    def __init__(
        self,
        b: KernelEmitter,
        plan: AttentionPlan,
        name: str,
        memory: SSAValue,
        batch: Index,
        lane: SSAValue,
    ):
        packed = PackedOperand(plan, name)
        tile = packed.tile
        self.b, self.lanes = b, tile.subgroup_size
        self.share = Share(b, memory, tile)
        _, inner_count, outer_count, _ = packed.sizes.shape
        self.step = outer_count * self.lanes
        self.stride = inner_count * self.step
        tiles = packed.whole_tiles if name == "k" and packed.tiles_lie_together else 1
        batch = address_along(b, packed.batch, batch, 0).base
        self.start = b.plus(b.times(batch, self.stride * tiles), lane)

    def load(self, outer: Index, inner: Index) -> SSAValue:
        b = self.b
        at = b.plus(b.times(outer, self.lanes), b.times(inner, self.step))
        return self.share.fragment(self.share.load(b.plus(self.start, at)))


class RowFragments:
    """Loads fragments from rows by cooperative loads."""

    def __init__(
        self, b: KernelEmitter, plan: AttentionPlan, name: str, memory: SSAValue, batch: Index
    ):
        self.b = b
        self.layout = plan.layout(name)
        element = plan.element
        packed = PackedOperand(plan, name).tile
        self.type = fragment_type(packed)
        self.sizes = packed.packing.fragment_sizes
        self.memory = b.at_top(FlatViewOp(memory, element), f"{name}_elements")
        self.start = b.plus(offset_along(b, self.layout, 0, batch), self.layout.start)
        by_inner = plan.by_inner(name)
        self.stride = stride_of(self.layout, 1 if by_inner else 2)
        # A's rows lie along M, B's along K.
        self.kind = ROW_MAJOR if by_inner == (name == "q") else COLUMN_MAJOR

    def load(self, outer: Index, inner: Index) -> SSAValue:
        b = self.b
        first, second = self.sizes
        at = b.plus(
            offset_along(b, self.layout, 1, b.times(outer, first)),
            offset_along(b, self.layout, 2, b.times(inner, second)),
        )
        place = (b.plus(self.start, at),)
        return load_matrix(b, self.type, self.memory, place, self.stride, self.kind)


def offset_along(b: KernelEmitter, layout: Layout, walk: int, number: Index) -> Index:
    """The number of elements that the `number`-th place of a walk adds to an address."""
    return address_along(b, layout.walks[walk], number, 0).base


def stride_of(layout: Layout, walk: int) -> Size:
    """Elements from one to the next along a walk of one axis; 0 if it stands still."""
    axes = layout.walks[walk]
    return axes[0].stride if axes else 0
