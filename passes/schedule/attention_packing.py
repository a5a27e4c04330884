"""Describes how operands of an attention are packed into fragments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from xdsl_spirv.dialects.schedule import PackedSizes, PackedViewOp, PackingAttr
from xdsl_spirv.dialects.schedule.attention import LOOPS
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic
from xdsl_spirv.passes.analysis.layout import Axis, Walk, join_axes
from xdsl_spirv.passes.schedule import kinds
from xdsl_spirv.passes.schedule.attention import LOOPS_OF, AttentionPlan, D, N
from xdsl_spirv.passes.schedule.tiles import PackedTile


def packings_of(plan: AttentionPlan) -> Iterator[kinds.PackedOperand]:
    """Yields the operands to pack: operand index, packing and its dynamic sizes."""
    for number, name in enumerate("qkv"):
        if plan.path(name) == "direct":
            operand = PackedOperand(plan, name)
            yield kinds.PackedOperand(plan.op, number, operand.packing, operand.numbers)


@dataclass(frozen=True)
class PackedOperand:
    """Queries (`name` "q"), keys ("k") or values ("v") in packed form."""

    plan: AttentionPlan
    name: str

    @cached_property
    def packing(self) -> PackingAttr:
        """The packing that the schedule needs."""
        m, n, k = self.plan.schedule.instruction.sizes
        query, key = self.plan.schedule.query_tile.data, self.plan.schedule.key_tile.data
        fragment, tile = {
            "q": ((m, k), (query, k)),
            "k": ((n, k), (key, k)),
            "v": ((n, k), (n, key)),
        }[self.name]
        sizes, kept = self.plan.op.sizes, self.loops
        batch, of_all = len(kept) - 2, len(sizes) - len(LOOPS)
        dims: list[AffineExpr] = [
            AffineDimExpr(kept.index(i) if i in kept else 0) for i in range(len(sizes))
        ]
        known, groups = [sizes[loop] for loop in kept], [batch, 1, 1]
        if self.name == "k" and self.tiles_lie_together:
            # Tiles of keys become part of the batch, so that each tile is contiguous.
            dims[of_all + N] = AffineDimExpr(batch) * key + AffineDimExpr(batch + 1)
            dims[of_all + D] = AffineDimExpr(batch + 2)
            known[batch : batch + 1] = [sizes[of_all + N] // key, key]
            groups[0] += 1
        map = self.plan.map_of(self.name).replace_dims_and_symbols(dims, [], len(known), 0)
        return PackingAttr(
            "A" if self.name == "q" else "B", fragment, tile, AffineMapAttr(map), known, groups
        )

    @property
    def sizes(self) -> PackedSizes:
        """Sizes of the packed operand."""
        return self.tile.packing.sized(self.numbers)

    @property
    def numbers(self) -> list[Size]:
        """Dynamic sizes of the packing."""
        sizes = [self.plan.sizes.loops[loop] for loop in self.loops]
        return [size for size in sizes if is_dynamic(size)]

    @cached_property
    def loops(self) -> list[int]:
        """Batch loops of the operand (without heads that share keys), then the other loops."""
        batch = len(self.plan.op.sizes) - len(LOOPS)
        used = self.plan.map_of(self.name).used_dims()
        return [
            *(loop for loop in range(batch) if loop in used),
            *(batch + loop for loop in LOOPS_OF[self.name]),
        ]

    @property
    def batch(self) -> Walk:
        """Axes that map a batch index to the index of a packed matrix."""
        batch = len(self.plan.op.sizes) - len(LOOPS)
        kept = self.loops[:-2]
        axes: list[Axis] = []
        step: Size = 1
        for loop in reversed(range(batch)):
            axes.append(Axis(self.plan.sizes.loops[loop], step if loop in kept else 0))
            step = step * self.plan.sizes.loops[loop] if loop in kept else step
        return join_axes(axes[::-1])

    @property
    def tiles_lie_together(self) -> bool:
        """True if each tile of keys is packed contiguously."""
        if self.plan.op.is_dynamic:
            return False
        _, _, most = self.plan.target.max_grid
        tiles = self.whole_tiles * self.plan.op.batch
        return self.plan.schedule.in_registers and not self.plan.ragged and tiles <= most

    @property
    def whole_tiles(self) -> int:
        """Number of complete tiles of keys; needs a static number of keys."""
        return self.plan.op.extents[N] // self.plan.schedule.key_tile.data

    @property
    def tile(self) -> PackedTile:
        """The tile of the packed operand that the kernel reads."""
        owner = self.plan.op.named[self.name].owner
        packing = owner.packing if isinstance(owner, PackedViewOp) else self.packing
        return PackedTile(packing, self.plan.element, self.plan.target.subgroup_size)
