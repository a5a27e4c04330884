"""
Derives counts from an attention's schedule by matrices.

Every subgroup has rows of queries to itself: their scores, running maxima and sums, and their part
of the result stay in its registers and in its own piece of Workgroup memory, so that no subgroup
ever waits for another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from xdsl.dialects.builtin import AffineMapAttr, BFloat16Type, MemRefType, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from xdsl_spirv.dialects.schedule import (
    AttentionAttr,
    AttentionOp,
    PackedSizes,
    PackedViewOp,
    PackingAttr,
    bit_width,
)
from xdsl_spirv.dialects.schedule.attention import DEALT_PATHS, LOOPS, AttentionSizes
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    ceil_div,
    is_dynamic,
    is_multiple,
    named_sizes,
    surely_below,
)
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixUse, Scope
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.passes.analysis.layout import Axis, Layout, Walk, joined, layout_of
from xdsl_spirv.passes.analysis.sizes import extents, number
from xdsl_spirv.passes.schedule.attention_deal import Deal
from xdsl_spirv.passes.schedule.kinds import KernelPlan, ScheduleDoesNotFit
from xdsl_spirv.passes.schedule.tiles import PackedTile
from xdsl_spirv.targets import Fragment, Target

ROW_PADDING = 8
"""f16 elements after each row of probabilities: shifts rows by four banks."""

WIDTHS = (8, 4, 2)
"""Elements that an invocation may load as one."""

MOST_BITS = 128

WORDS = 4
"""Words of a piece in Workgroup memory."""

M, N, D, E = range(len(LOOPS))

LOOPS_OF = {"q": (M, D), "k": (N, D), "v": (E, N), "mask": (M, N), "result": (M, E)}
"""The two loops of an operand after the batch's: M or N and K of its product, for q, k and v."""


@dataclass(frozen=True)
class AttentionPlan(KernelPlan):
    """An attention with its schedule on a target."""

    op: AttentionOp
    schedule: AttentionAttr
    target: Target
    CHECKS = "attention_fit:problems"

    @property
    def kernel_name(self) -> str:
        return f"attention_{named_sizes((self.sizes.batch, *self.sizes.extents))}"

    @property
    def element(self) -> Attribute:
        """The element type of queries, keys and values."""
        return element_type_of(self.op.query)

    @property
    def invocations(self) -> int:
        return self.schedule.subgroups.data * self.target.subgroup_size

    @cached_property
    def sizes(self) -> AttentionSizes:
        return self.op.sized([number(value) for value in self.op.numbers])

    @property
    def extents(self) -> tuple[Size, Size, int, int]:
        """Queries, keys, elements of a query or key, of a value."""
        m, n, *_ = self.sizes.extents
        _, _, d, e = self.op.extents
        return m, n, d, e

    @property
    def causal(self) -> Size | None:
        """The bound of the mask by index; None if every row sees all keys."""
        bound = self.sizes.causal
        hides = bound is not None and not surely_below(self.extents[N] - 1, bound + 1)
        return bound if hides else None

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """Tiles of queries, and the batch, in the order of the schedule."""
        if self.schedule.order.data == "batch":
            return self.sizes.batch, self.tiles, 1
        return self.tiles, self.sizes.batch, 1

    @property
    def tiles(self) -> Size:
        """Tiles of queries."""
        return ceil_div(self.extents[M], self.schedule.query_tile.data)

    @property
    def components(self) -> int:
        """Elements of an accumulator fragment that an invocation holds."""
        m, n, _ = self.schedule.instruction.sizes
        return m * n // self.target.subgroup_size

    @property
    def steps(self) -> int:
        """Fragments along a query or key."""
        if self.is_dealt("k"):
            return self.deal("k").count
        return ceil_div(self.op.extents[D], self.schedule.instruction.sizes[2])

    @property
    def columns(self) -> int:
        """Fragments along a value."""
        if self.is_dealt("v"):
            return self.deal("v").count
        return ceil_div(self.op.extents[E], self.schedule.instruction.sizes[1])

    @property
    def key_fragments(self) -> int:
        """Fragments of scores along a tile of keys."""
        return self.schedule.key_tile.data // self.schedule.instruction.sizes[1]

    def value(self, name: str) -> SSAValue | None:
        """Returns the operand with this name in `LOOPS_OF`."""
        op = self.op
        values = {"q": op.query, "k": op.key, "v": op.value, "mask": op.mask, "result": op.out}
        return values[name]

    def _map(self, name: str) -> AffineMap:
        return self.op.maps.data[("q", "k", "v", "result", "mask").index(name)].data

    def layout(self, name: str) -> Layout:
        """The layout of an operand; its walks are the batch's and the loops in `LOOPS_OF`."""
        value = self.value(name)
        assert value is not None
        batch = len(self.op.sizes) - len(LOOPS)
        outer, inner = (batch + loop for loop in LOOPS_OF[name])
        groups = (range(batch), range(outer, outer + 1), range(inner, inner + 1))
        layout = layout_of(self._map(name), extents(value), None, self.sizes.loops, groups)
        # No place is outside, even where sizes do not say so.
        walks = tuple(tuple(replace(axis, steps=()) for axis in walk) for walk in layout.walks)
        return Layout(layout.start, walks)

    def path(self, name: str) -> str:
        return dict(zip("qkv", self.schedule.paths, strict=True))[name]

    def is_dealt(self, name: str) -> bool:
        """Whether elements of q's, k's or v's rows are dealt out for wide reads."""
        return self.path(name) in DEALT_PATHS

    def packing(self, name: str) -> PackingAttr:
        """The packing of q, k or v for direct reads."""
        m, n, k = self.schedule.instruction.sizes
        query, key = self.schedule.query_tile.data, self.schedule.key_tile.data
        fragment, tile = {
            "q": ((m, k), (query, k)),
            "k": ((n, k), (key, k)),
            "v": ((n, k), (n, key)),
        }[name]
        sizes, kept = self.op.sizes, self._packed_loops(name)
        batch, of_all = len(kept) - 2, len(sizes) - len(LOOPS)
        dims: list[AffineExpr] = [
            AffineDimExpr(kept.index(i) if i in kept else 0) for i in range(len(sizes))
        ]
        known, groups = [sizes[loop] for loop in kept], [batch, 1, 1]
        if name == "k" and self.tiles_lie_together:
            # Tiles of keys are part of the batch, so that each lies in one piece.
            dims[of_all + N] = AffineDimExpr(batch) * key + AffineDimExpr(batch + 1)
            dims[of_all + D] = AffineDimExpr(batch + 2)
            known[batch : batch + 1] = [sizes[of_all + N] // key, key]
            groups[0] += 1
        map = self._map(name).replace_dims_and_symbols(dims, [], len(known), 0)
        return PackingAttr(
            "A" if name == "q" else "B", fragment, tile, AffineMapAttr(map), known, groups
        )

    def packed_sizes(self, name: str) -> PackedSizes:
        """The sizes of q, k or v once it is packed."""
        return self.packed_tile(name).packing.sized(self.packed_numbers(name))

    def packed_numbers(self, name: str) -> list[Size]:
        """The dynamic sizes of the operand's packing."""
        sizes = [self.sizes.loops[loop] for loop in self._packed_loops(name)]
        return [size for size in sizes if is_dynamic(size)]

    def _packed_loops(self, name: str) -> list[int]:
        """The batch's loops on which an operand depends, and its own two: heads may share keys."""
        batch = len(self.op.sizes) - len(LOOPS)
        used = self._map(name).used_dims()
        return [
            *(loop for loop in range(batch) if loop in used),
            *(batch + loop for loop in LOOPS_OF[name]),
        ]

    def packed_batch(self, name: str) -> Walk:
        """The walk along the batch of a packed operand, by the number in the whole batch."""
        batch = len(self.op.sizes) - len(LOOPS)
        kept = self._packed_loops(name)[:-2]
        axes: list[Axis] = []
        step: Size = 1
        for loop in reversed(range(batch)):
            axes.append(Axis(self.sizes.loops[loop], step if loop in kept else 0))
            step = step * self.sizes.loops[loop] if loop in kept else step
        return joined(axes[::-1])

    @property
    def tiles_lie_together(self) -> bool:
        """True if packed keys lie tile by tile: all tiles are whole, and not too many."""
        if self.op.is_dynamic:
            return False
        _, _, most = self.target.max_grid
        tiles = self.whole_tiles * self.op.batch
        return self.schedule.in_registers and not self.ragged and tiles <= most

    @property
    def whole_tiles(self) -> int:
        """The number of whole tiles of keys, where it is known."""
        return self.op.extents[N] // self.schedule.key_tile.data

    def packed_tile(self, name: str) -> PackedTile:
        """Returns the packed tile as it is read."""
        value = self.value(name)
        owner = value.owner if value is not None else None
        packing = owner.packing if isinstance(owner, PackedViewOp) else self.packing(name)
        return PackedTile(packing, self.element, self.target.subgroup_size)

    @property
    def rows_held(self) -> int:
        """Rows of a fragment of scores of which an invocation has components."""
        assert self.shared_places is not None
        return len(self.shared_places.component.values(0))

    @property
    def probability_row(self) -> int:
        """Elements from row to row of probabilities in Workgroup memory."""
        return self.schedule.key_tile.data + ROW_PADDING

    @property
    def workgroup_bytes(self) -> int:
        """
        Probabilities, a fragment of f32, two numbers for each row; and indices once. Or where
        probabilities stay in registers what all but the first of subgroups that share rows have.
        """
        others = self.schedule.subgroups.data - self.schedule.groups
        if others:
            numbers = self.columns * self.components + 2 * self.rows_held
            return 4 * others * self.schedule.strips * numbers * self.target.subgroup_size
        if self.schedule.staged:
            return 16 * sum(map(self.staged_vectors, "kv"))
        if self.schedule.probabilities.data != "memory":
            return 0
        m, n, _ = self.schedule.instruction.sizes
        rows = self.schedule.rows
        subgroup_bytes = rows * self.probability_row * 2 + m * n * 4 + 2 * rows * 4
        return self.schedule.subgroups.data * subgroup_bytes + (max(m, n) * 4 if self.counts else 0)

    def staged_rows(self, name: str) -> int:
        """Returns the rows of k's or v's tile in Workgroup memory."""
        return self.schedule.key_tile.data // self.deal(name).apart

    def staged_vectors(self, name: str) -> int:
        """Returns the number of pieces of 16 bytes of k's or v's tiles in Workgroup memory."""
        return (
            self.schedule.buffers.data * self.staged_rows(name) * self.deal(name).tile_rows.stride
        )

    @property
    def shared_places(self) -> Fragment | None:
        """
        Returns the places of an accumulator's components, if the components of the second product's
        first operand lie there too; None where that is not known.
        """
        m, n, k = self.schedule.instruction.sizes
        scores = self.target.fragment("Acc", (m, n), 32)
        left = self.target.fragment("A", (m, k), bit_width(self.element))
        if n != k or scores is None or left is None or (0, 0) in scores.lane.bits:
            return None
        same = (scores.lane, scores.component) == (left.lane, left.component)
        return scores if same else None

    def deal(self, name: str) -> Deal:
        """The distribution of q's, k's or v's rows for wide reads; raises `ScheduleDoesNotFit`."""
        deals = [deal for v in WIDTHS if (deal := self._deal(name, v)) is not None]
        if not deals and self._is_paired(name) and not self._has_pairs:
            raise ScheduleDoesNotFit(
                f"{name}: staged, but an invocation of {self.target.name} has no neighbouring rows "
                "of a fragment: vectors or direct would fit"
            )
        if not deals:
            raise ScheduleDoesNotFit(
                f"{name}: {self.path(name)}, but neighbours along its rows cannot be loaded as "
                "one: direct packs them"
            )
        return min(deals, key=lambda deal: (deal.count, -deal.vector))

    def _deal(self, name: str, vector: int) -> Deal | None:
        """The deal of an operand with `vector` elements at a time, if that is possible."""
        m, n, k = self.schedule.instruction.sizes
        _, _, d, e = self.op.extents
        bits = bit_width(self.element)
        right = self.target.fragment("B", (k, n), bits)
        if right is None or vector * bits > MOST_BITS:
            return None
        dealt_together = ("q", "k") if name in "qk" else ("v",)
        shared = {value for other in dealt_together if (value := self.value(other)) is not None}
        names = {other for other in "qkv" if self.value(other) in shared} | set(dealt_together)
        if any(self.layout(other).run(self.head_walk(other)) % vector for other in names):
            return None
        if name == "v":
            deal = Deal(right, 1, vector, e, self._is_paired(name))
            if deal.paired and (not self._has_pairs or vector != WORDS):
                return None
            return deal if vector % deal.share == 0 else None
        deal = Deal(right, 0, vector, d)
        left = self.target.fragment("A", (m, k), bits)
        if left is None or vector % deal.share:
            return None
        of_q = Deal(left, 1, vector, d)
        if of_q.weights != deal.weights:
            return None
        return of_q if name == "q" else deal

    def _is_paired(self, name: str) -> bool:
        return name == "v" and self.path(name) == "staged"

    @property
    def _has_pairs(self) -> bool:
        """Whether an invocation's components of a fragment of values lie in pairs of rows."""
        _, n, k = self.schedule.instruction.sizes
        right = self.target.fragment("B", (k, n), bit_width(self.element))
        return right is not None and 1 in right.component.values(0)

    def element_of(self, name: str) -> Attribute:
        """Returns the element type of an operand by its name in `LOOPS_OF`."""
        value = self.value(name)
        assert value is not None
        return element_type_of(value)

    @property
    def _column_weights(self) -> dict[int, int]:
        """The part of the element's number for each bit of a column of the result's fragments."""
        if self.is_dealt("v"):
            return self.deal("v").weights
        return {
            1 << bit: 1 << bit for bit in range(self.schedule.instruction.sizes[1].bit_length() - 1)
        }

    def column_of(self, number: int, column: int) -> int:
        """The element of a value that is at a column of one of the result's fragments."""
        if self.is_dealt("v"):
            return self.deal("v").element(number, column)
        return number * self.schedule.instruction.sizes[1] + column

    @property
    def lane_columns(self) -> list[tuple[int, int]]:
        """Bits of an invocation's number, and the weight of each in its elements' numbers."""
        assert self.shared_places is not None
        weights = self._column_weights
        return [(bit, weights[place]) for bit, place in self.shared_places.lane.bits_along(1)]

    @property
    def most_lane_column(self) -> int:
        """The greatest element offset along the head that follows from a lane's number."""
        return sum(weight for _, weight in self.lane_columns)

    @property
    def stored_at_once(self) -> int:
        """Elements of the result that are neighbours in an invocation and in memory."""
        assert self.shared_places is not None
        weights = self._column_weights
        own = {weights[place] for _, place in self.shared_places.component.bits_along(1)}
        if self.is_dealt("v"):
            deal = self.deal("v")
            own |= {deal.share << i for i in range((deal.fragments).bit_length() - 1)}
        width, most = 1, MOST_BITS // bit_width(self.element_of("result"))
        run = self.layout("result").run(2)
        while width in own and width < most and run % (2 * width) == 0:
            width *= 2
        # Below a word nothing is moved as one.
        return width

    def operand_type(self, name: str) -> CooperativeMatrixType:
        """Returns the type of fragments of q, k or v."""
        m, n, k = self.schedule.instruction.sizes
        left = name == "q"
        rows, columns = (m, k) if left else (k, n)
        use = CooperativeMatrixUse.MatrixAKHR if left else CooperativeMatrixUse.MatrixBKHR
        return CooperativeMatrixType(rows, columns, self.element, Scope.Subgroup, use)

    def head_walk(self, name: str) -> int:
        """The walk of the layout of q, k or v that goes along the head."""
        return 1 + LOOPS_OF[name].index(E if name == "v" else D)

    def line(self, name: str) -> int:
        """The number of rows of q, k or v in a line of fragments."""
        m, n, k = self.schedule.instruction.sizes
        return {"q": m, "k": n, "v": k}[name]

    def extent_along(self, name: str) -> Size:
        """Returns the rows of q, k or v."""
        return self.extents[M if name == "q" else N]

    @property
    def counts(self) -> bool:
        """True if the code needs to know the places of components in a fragment."""
        return self.op.offset is not None or self.ragged

    @property
    def ragged(self) -> bool:
        """True if the last tile of keys goes beyond the last key."""
        return not is_multiple(self.extents[N], self.schedule.key_tile.data)

    @property
    def hides(self) -> bool:
        """True if a row may not see all keys of some tile."""
        return self.ragged or self.causal is not None or self.sizes.window is not None

    @property
    def ends_within(self) -> bool:
        """True if the last tile of queries goes beyond the last query."""
        return not is_multiple(self.extents[M], self.schedule.query_tile.data)

    @property
    def registers(self) -> int:
        """
        32-bit registers that fragments take: what the loop carries, the scores, and the operands of
        one product.
        """
        if self.schedule.in_registers:
            return self._registers_without_memory
        _, n, k = self.schedule.instruction.sizes
        strips, size = self.schedule.strips, self.target.subgroup_size
        m = self.schedule.instruction.sizes[0]
        carried = strips * (self.columns + 2) * self.components
        scores = strips * self.key_fragments * self.components
        queries = strips * self.steps * ceil_div(m * k, 2 * size)
        operands = ceil_div(n * k, 2 * size) + strips * ceil_div(m * k, 2 * size)
        return carried + scores + queries + operands + (2 * self.components if self.counts else 0)

    @property
    def _registers_without_memory(self) -> int:
        """The 32-bit registers of fragments if probabilities stay in registers."""
        m, _, k = self.schedule.instruction.sizes
        schedule, size = self.schedule, self.target.subgroup_size
        carried = schedule.strips * self.columns * self.components
        scores = schedule.strips * self.key_fragments * self.components
        queries = schedule.strips * self.steps * ceil_div(m * k, 2 * size)
        if schedule.scores_ahead:
            scores *= 2
        if not schedule.holds_queries:
            queries //= self.steps
        return carried + scores + scores // 2 + queries

    @property
    def words_ahead(self) -> int:
        """Registers of values that are read ahead, which a driver may still read later."""
        if self.schedule.staged:
            tiles = [self.schedule.key_tile.data * size for size in self.op.extents[-2:]]
            waiting = sum(tiles) if self.schedule.buffers.data > 1 else max(tiles)
            return ceil_div(waiting, 2 * self.invocations)
        _, n, k = self.schedule.instruction.sizes
        fragment = self.key_fragments * ceil_div(n * k, 2 * self.target.subgroup_size)
        keys = self.steps if self.schedule.reads_ahead("keys") else 0
        values = self.columns if self.schedule.reads_ahead("values") else 0
        return fragment * (keys + values)

    @property
    def mask_in_fragments(self) -> bool:
        """Whether the mask is loaded cooperatively: whole tiles, aligned, keys side by side."""
        if self.op.mask is None:
            return False
        layout = self.layout("mask")
        rows, keys = layout.walks[1], layout.walks[2]
        whole = not self.ragged and (not rows or not self.ends_within)
        if not whole or not keys or keys[0].stride != 1:
            return False
        alignment = self._alignment(
            self.schedule.instruction.sizes[1], element_type_of(self.op.mask)
        )
        steps = [axis.stride for walk in layout.walks[:2] for axis in walk]
        return all(is_multiple(step, alignment) for step in steps)

    @property
    def stored_in_fragments(self) -> bool:
        """Whether the result is stored cooperatively."""
        return not self.ends_within and self.fragments_are_stored

    @property
    def fragments_are_stored(self) -> bool:
        """Whether fragments that lie inside the result are stored cooperatively."""
        result = element_type_of(self.op.out)
        if isinstance(result, BFloat16Type):
            return False
        layout = self.layout("result")
        _, _, _, e = self.extents
        _, n, _ = self.schedule.instruction.sizes
        if e % n:
            return False
        if not layout.is_contiguous(2):
            return False
        alignment = self._alignment(n, result)
        steps = [axis.stride for walk in layout.walks[:2] for axis in walk]
        return all(is_multiple(step, alignment) for step in steps)

    def by_inner(self, name: str) -> bool:
        """Whether an operand's rows, as `rows` reads them, lie along its second loop."""
        return self.layout(name).is_contiguous(2)

    def rows_fit(self, name: str) -> Iterator[str]:
        """Reasons why fragments of q, k or v cannot be loaded from the operand's own layout."""
        layout = self.layout(name)
        packing = self.packing(name)
        for size, tile, what in zip(
            packing.extents[1:], packing.tile, ("M or N", "K"), strict=True
        ):
            if size % tile.data:
                yield (
                    f"{name}: rows, but {size} along {what} is not a multiple of {tile.data}: "
                    "direct takes any size"
                )
        if isinstance(self.value(name), SSAValue) and not (
            layout.is_contiguous(1) or layout.is_contiguous(2)
        ):
            yield f"{name}: rows, but no two neighbours lie side by side: direct packs them"
            return
        other = 1 if self.by_inner(name) else 2
        columns = packing.fragment_sizes[2 - other]
        alignment = self._alignment(columns, self.element)
        steps = [axis.stride for walk in (layout.walks[0], layout.walks[other]) for axis in walk]
        if not all(is_multiple(step, alignment) for step in steps):
            yield (
                f"{name}: rows, but its rows do not all begin at a multiple of {alignment} "
                "elements, as cooperative loads need: direct packs them"
            )

    def _alignment(self, columns: int, element: Attribute) -> int:
        """Elements of which places are multiples from which rows of a fragment are loaded."""
        size = bit_width(element) // 8
        return max(1, min(self.target.cooperative_matrix_alignment, columns * size) // size)


def element_type_of(value: SSAValue) -> Attribute:
    type = value.type
    assert isinstance(type, TensorType | MemRefType)
    return type.element_type
