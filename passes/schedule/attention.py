"""
Plans an attention on cooperative matrices: derives counts, sizes and layouts from its schedule.

Each subgroup computes its own rows of queries. It holds their scores, running maxima, sums and
results in its registers and in its own part of Workgroup memory, so that subgroups do not wait for
each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic

from typing_extensions import TypeVar
from xdsl.dialects.builtin import AffineMapAttr, BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr, AffineMap

from xdsl_spirv.dialects.schedule import (
    AttentionAttr,
    AttentionLanesAttr,
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
from xdsl_spirv.passes.analysis.contraction import element_type
from xdsl_spirv.passes.analysis.layout import Layout, Walk, layout_of
from xdsl_spirv.passes.analysis.sizes import extents, number
from xdsl_spirv.passes.schedule.kinds import (
    MOST_BITS,
    WIDTHS,
    KernelPlan,
    PackedOperand,
    ScheduleDoesNotFit,
)
from xdsl_spirv.passes.schedule.pipeline import ATTENTION, STAGED_ATTENTION, Pipeline
from xdsl_spirv.passes.schedule.tiles import PackedTile
from xdsl_spirv.targets import Fragment, Target
from xdsl_spirv.targets.linear import Linear

FLOATS = Float16Type | BFloat16Type | Float32Type
"""Element types that an attention supports."""

WORDS = 4
"""Number of 32-bit words of a vector in Workgroup memory."""

AttentionT = TypeVar("AttentionT", bound=AttentionAttr | AttentionLanesAttr, default=Any)

M, N, D, E = range(len(LOOPS))

LOOPS_OF = {"q": (M, D), "k": (N, D), "v": (N, E), "mask": (M, N), "sink": (M, N), "result": (M, E)}


@dataclass(frozen=True)
class OfAttention(KernelPlan, Generic[AttentionT]):
    """Base class of the plans of an attention with a schedule on a target."""

    op: AttentionOp
    schedule: AttentionT
    target: Target
    LOOPS_OF: ClassVar[Mapping[str, tuple[int, int]]] = LOOPS_OF
    """The two loops that index each operand after the batch loops."""

    @property
    def kernel_name(self) -> str:
        return f"attention_{named_sizes((self.sizes.batch, *self.sizes.extents))}"

    @cached_property
    def sizes(self) -> AttentionSizes:
        return self.op.sized([number(value) for value in self.op.numbers])

    @property
    def causal(self) -> Size | None:
        """Bound of the causal mask: row m sees keys up to m + bound. None without such a mask."""
        bound = self.sizes.causal
        hides = bound is not None and not surely_below(self.sizes.extents[N] - 1, bound + 1)
        return bound if hides else None

    def map_of(self, name: str) -> AffineMap:
        """Returns the map from loops to an operand's dimensions."""
        return self.op.maps.data[list(self.op.named).index(name)].data

    def element_of(self, name: str) -> Attribute:
        """Returns the element type of an operand."""
        return element_type(self.op.named[name])

    def shape_of(self, name: str) -> Sequence[Size]:
        """Returns the sizes of an operand's dimensions."""
        return extents(self.op.named[name])

    @property
    def batch_loops(self) -> tuple[range, ...]:
        """
        The batch loops as ranges: one range for each group of batch loops in an operand's layout.
        """
        return (range(len(self.op.sizes) - len(LOOPS)),)

    def layout(self, name: str) -> Layout:
        """
        Returns an operand's layout, in which batch loops and the other loops are separate groups.
        """
        first = len(self.op.sizes) - len(LOOPS)
        own = (range(first + loop, first + loop + 1) for loop in self.LOOPS_OF[name])
        groups = (*self.batch_loops, *own)
        return drop_guards(
            layout_of(self.map_of(name), self.shape_of(name), None, self.sizes.loops, groups)
        )


def drop_guards(layout: Layout) -> Layout:
    """Returns the layout without bounds: every position counts as inside."""
    walks = tuple(tuple(replace(axis, steps=()) for axis in walk) for walk in layout.walks)
    return Layout(layout.start, walks)


@dataclass(frozen=True)
class AttentionPlan(OfAttention[AttentionAttr]):
    """An attention with a schedule of cooperative matrices on a target."""

    CHECKS, SECONDS = "attention_choice:problems", "attention_choice:estimate_seconds"
    LOOPS_OF = {**LOOPS_OF, "v": (E, N)}

    @property
    def element(self) -> Attribute:
        """Element type of queries, keys and values."""
        return element_type(self.op.query)

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """
        Number of workgroups along each axis: tiles of queries and batch, in the schedule's order.
        """
        if self.schedule.order.data == "batch":
            return self.sizes.batch, self.tiles, 1
        return self.tiles, self.sizes.batch, 1

    @property
    def tiles(self) -> Size:
        """Number of query tiles."""
        return ceil_div(self.sizes.extents[M], self.schedule.query_tile.data)

    @property
    def components(self) -> int:
        """Number of components of an accumulator in each invocation."""
        m, n, _ = self.schedule.instruction.sizes
        return m * n // self.target.subgroup_size

    @property
    def steps(self) -> int:
        """Number of fragments along the head dimension of a query or key."""
        if self.is_dealt("k"):
            return self.deal("k").count
        return ceil_div(self.op.extents[D], self.schedule.instruction.sizes[2])

    @property
    def columns(self) -> int:
        """Number of fragments along the head dimension of a value."""
        if self.is_dealt("v"):
            return self.deal("v").count
        return ceil_div(self.op.extents[E], self.schedule.instruction.sizes[1])

    @property
    def key_fragments(self) -> int:
        """Number of score fragments along a tile of keys."""
        return self.schedule.key_tile.data // self.schedule.instruction.sizes[1]

    def pipeline(self, masked: bool) -> Pipeline:
        """
        Returns the stages of the loop over key tiles.

        Tiles that need a mask are read ahead only through Workgroup memory, since their rows may
        lie outside of the tensor.
        """
        ahead = self.schedule.ahead.data
        if self.schedule.staged:
            return STAGED_ATTENTION[self.schedule.buffers.data]
        return ATTENTION["values" if masked and ahead == "keys" else ahead]

    def path(self, name: str) -> str:
        return dict(zip("qkv", self.schedule.paths, strict=True))[name]

    def is_dealt(self, name: str) -> bool:
        """True if the order of elements in q, k or v is chosen for vector loads (see `Deal`)."""
        return self.path(name) in DEALT_PATHS

    @property
    def workgroup_bytes(self) -> int:
        """
        Size of Workgroup memory in bytes.

        With `key_parts`, it holds the maxima, sums and results of all subgroups except the first of
        each group. With staging, it holds tiles of keys and values. With `probabilities = memory`,
        it holds each subgroup's probabilities, one f32 fragment and one number for each of the
        fragment's rows.
        """
        others = self.schedule.subgroups.data - self.schedule.groups
        if others:
            assert self.shared_places is not None
            rows = len(self.shared_places.component.values(0))
            numbers = self.columns * self.components + 2 * rows
            return 4 * others * self.schedule.strips * numbers * self.target.subgroup_size
        if self.schedule.staged:
            strides = (self.staged_rows(x) * self.deal(x).tile_rows.stride for x in "kv")
            return 16 * self.schedule.buffers.data * sum(strides)
        if self.schedule.probabilities.data != "memory":
            return 0
        m, n, _ = self.schedule.instruction.sizes
        subgroup_bytes = self.schedule.rows * self.schedule.probability_row * 2 + m * (n + 1) * 4
        return self.schedule.subgroups.data * subgroup_bytes

    def staged_rows(self, name: str) -> int:
        """Returns the number of rows of a staged tile of keys or values."""
        return self.schedule.key_tile.data // self.deal(name).apart

    @property
    def shared_places(self) -> Fragment | None:
        """
        Component positions, if accumulators and left operands (A) have the same positions. None if
        they differ.
        """
        m, n, k = self.schedule.instruction.sizes
        scores = self.target.fragment("Acc", (m, n), 32)
        left = self.target.fragment("A", (m, k), bit_width(self.element))
        if n != k or scores is None or left is None or (0, 0) in scores.lane.bits:
            return None
        same = (scores.lane, scores.component) == (left.lane, left.component)
        return scores if same else None

    def deal(self, name: str) -> Deal:
        """Returns the element order for vector loads of q, k or v; raises `ScheduleDoesNotFit`."""
        deals = [deal for v in WIDTHS if (deal := self._deal(name, v)) is not None]
        if not deals and self._is_paired(name) and not self._has_pairs:
            raise ScheduleDoesNotFit(
                f"{name} = staged needs invocations that hold neighbouring rows of a fragment, "
                f"which {self.target.name} does not have: vectors or direct would fit"
            )
        if not deals:
            raise ScheduleDoesNotFit(
                f"{name} = {self.path(name)} needs vector loads along the operand's rows, which "
                "its layout does not allow: use direct"
            )
        return min(deals, key=lambda deal: (deal.count, -deal.vector))

    def _deal(self, name: str, vector: int) -> Deal | None:
        """
        Returns an operand's element order for vectors of `vector` elements; None if impossible.
        """
        m, n, k = self.schedule.instruction.sizes
        _, _, d, e = self.op.extents
        bits = bit_width(self.element)
        right = self.target.fragment("B", (k, n), bits)
        if right is None or vector * bits > MOST_BITS:
            return None
        values = self.op.named
        shared = [values[other] for other in ("qk" if name in "qk" else "v")]
        names = [other for other in "qkv" if values[other] in shared]
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
        _, n, k = self.schedule.instruction.sizes
        right = self.target.fragment("B", (k, n), bit_width(self.element))
        return right is not None and 1 in right.component.values(0)

    def head_walk(self, name: str) -> int:
        """
        Returns the index of the layout walk (group of loops) along the head dimension of q, k or v.
        """
        return 1 + self.LOOPS_OF[name].index(E if name == "v" else D)

    def line(self, name: str) -> int:
        """Returns the number of rows that one fragment of q, k or v spans."""
        m, n, k = self.schedule.instruction.sizes
        return {"q": m, "k": n, "v": k}[name]

    @property
    def ragged(self) -> bool:
        """True if the last tile of keys exceeds the number of keys."""
        return not is_multiple(self.sizes.extents[N], self.schedule.key_tile.data)

    @property
    def hides(self) -> bool:
        """True if a tile may contain a key that a row must not see."""
        return self.ragged or self.causal is not None or self.sizes.window is not None

    @property
    def ends_within(self) -> bool:
        """True if the last tile of queries exceeds the number of queries."""
        return not is_multiple(self.sizes.extents[M], self.schedule.query_tile.data)

    @property
    def stores_fragments(self) -> bool:
        """True if the result is stored by cooperative stores."""
        result, (_, _, _, e) = self.element_of("result"), self.sizes.extents
        _, n, _ = self.schedule.instruction.sizes
        layout = self.layout("result")
        unfit = self.ends_within or self.is_dealt("v") or isinstance(result, BFloat16Type)
        if unfit or e % n or not layout.is_contiguous(2):
            return False
        alignment = self.target.count_aligned(n, bit_width(result))
        steps = [axis.stride for walk in layout.walks[:2] for axis in walk]
        return all(is_multiple(step, alignment) for step in steps)

    def by_inner(self, name: str) -> bool:
        """True if an operand is contiguous along the second of its loops in `LOOPS_OF`."""
        return self.layout(name).is_contiguous(2)

    def packings(self) -> Iterator[PackedOperand]:
        for at, name in enumerate("qkv"):
            if self.path(name) == "direct":
                operand = PackedMatrix(self, name)
                yield PackedOperand(self.op, at, operand.packing, operand.numbers)


@dataclass(frozen=True)
class PackedMatrix:
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
        dims = [AffineDimExpr(kept.index(i) if i in kept else 0) for i in range(len(sizes))]
        map = self.plan.map_of(self.name).replace_dims_and_symbols(dims, [], len(kept), 0)
        use, groups = "A" if self.name == "q" else "B", (len(kept) - 2, 1, 1)
        known = [sizes[loop] for loop in kept]
        return PackingAttr(use, fragment, tile, AffineMapAttr(map), known, groups)

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
        """
        Batch loops of the packed operand (without loops over heads that share keys), then the other
        two loops.
        """
        batch = len(self.plan.op.sizes) - len(LOOPS)
        used = self.plan.map_of(self.name).used_dims()
        return [
            *(loop for loop in range(batch) if loop in used),
            *(batch + loop for loop in self.plan.LOOPS_OF[self.name]),
        ]

    @property
    def batch(self) -> Walk:
        """Axes along which a batch index is split into the index of a packed matrix."""
        (batch, *_), sizes = self.plan.batch_loops, self.plan.sizes.loops
        kept = self.loops[:-2]
        map = AffineMap(len(sizes), 0, tuple(AffineDimExpr(loop) for loop in kept))
        return layout_of(map, [sizes[loop] for loop in kept], None, sizes, [batch]).walks[0]

    @property
    def tile(self) -> PackedTile:
        """The tile of the packed operand that the kernel reads."""
        owner = self.plan.op.named[self.name].owner
        packing = owner.packing if isinstance(owner, PackedViewOp) else self.packing
        return PackedTile(packing, self.plan.element, self.plan.target.subgroup_size)


@dataclass(frozen=True)
class Deal:
    """
    An order of the `size` elements of a row, for loads by vectors of `vector` elements.

    A fragment has an axis along rows (queries or keys) and an axis along the head dimension. Some
    bits of a position along the head dimension come from the lane, others from the component
    index. The order replaces the natural order in a block of neighbouring fragments: the lowest
    bits of the element index are the component's bits, then follow the fragment's index and the
    lane's bits. The elements of an invocation are then contiguous.

    `axis` (0 or 1) is the fragment's axis along the rows. Elements have 16 bits. If `paired`, a
    word holds one element of each of two neighbouring rows; the two rows count as one row, and
    `vector` counts words.
    """

    fragment: Fragment
    axis: int
    vector: int
    size: int
    paired: bool = False

    @property
    def share(self) -> int:
        """Number of a row's elements that an invocation holds in one fragment."""
        return 1 << len(self.fragment.component.bits_along(self.axis))

    @property
    def fragments(self) -> int:
        """Number of neighbouring fragments whose elements are reordered together (a block)."""
        return self.vector // self.share

    @property
    def block_vectors(self) -> int:
        """Number of vectors in a block: neighbouring fragments that are reordered together."""
        return 1 << len(self.fragment.lane.bits_along(self.axis))

    @property
    def blocks(self) -> int:
        """Number of reordered blocks (see `fragments`) in a row."""
        return -(-self.size // (self.block_vectors * self.vector))

    @property
    def count(self) -> int:
        """Number of fragments along a row."""
        return self.blocks * self.fragments

    @property
    def apart(self) -> int:
        """Number of rows that one word combines: 2 if `paired`, else 1."""
        return 2 if self.paired else 1

    @property
    def rows(self) -> list[int]:
        """Offsets of the rows in which an invocation holds components."""
        offsets = self.fragment.component.values(1 - self.axis)
        return [row // self.apart for row in offsets if row % self.apart == 0]

    def halves(self, number: int) -> list[tuple[int, int, int]]:
        """
        Returns, for each component of the invocation: its row (an index into `rows`), the word that
        holds it, and the half of this word.
        """
        rows, halves = self.rows, list[tuple[int, int, int]]()
        for at in self.fragment.component.then(self.axis, self.weights).places:
            row, element = at[1 - self.axis], number * self.share + at[self.axis]
            word, half = (element, row % 2) if self.paired else divmod(element, 2)
            halves.append((rows.index(row // self.apart), word, half))
        return halves

    @property
    def weights(self) -> dict[int, int]:
        """Maps each bit of a position along the axis to its weight in the element index."""
        own, lanes = (
            [place for _, place in bits.bits_along(self.axis)]
            for bits in (self.fragment.component, self.fragment.lane)
        )
        weights = {place: 1 << rank for rank, place in enumerate(own)}
        return weights | {place: self.vector << rank for rank, place in enumerate(lanes)}

    def element(self, number: int, place: int) -> int:
        """Returns the element at position `place` along the axis of fragment `number`."""
        block, of_block = divmod(number, self.fragments)
        in_block = sum(weight for bit, weight in self.weights.items() if place & bit)
        return block * self.block_vectors * self.vector + of_block * self.share + in_block

    @property
    def lane(self) -> Linear:
        """
        The linear map from a lane index to a row and a vector. Axis `axis` of its result counts
        vectors.
        """
        own = self.fragment.lane
        rows = {weight: weight // self.apart for _, weight in own.bits_along(1 - self.axis)}
        vectors = (weight for _, weight in own.bits_along(self.axis))
        ranks = {weight: 1 << rank for rank, weight in enumerate(vectors)}
        return own.then(1 - self.axis, rows).then(self.axis, ranks)

    @property
    def tile_rows(self) -> TileRows:
        """Rows in Workgroup memory, with the stride and swizzle of fewest bank conflicts."""
        together = 128 // (self.vector * (4 if self.paired else 2))
        places = map(self.lane.at, range(together))
        lanes = [(place[1 - self.axis], place[self.axis]) for place in places]
        width = self.blocks * self.block_vectors
        rows = 1 + max(row for row, _ in lanes)
        swizzled = width % together == 0 and all(row % rows == 0 for row in self.rows)
        orders = [TileRows(width)]
        if swizzled and rows & (rows - 1) == 0:
            orders.append(TileRows(width, rows, together // rows))
        orders += [TileRows(width + more) for more in range(1, together)]

        def banks(order: TileRows) -> int:
            return len({order.place(row, vector) % together for row, vector in lanes})

        return max(orders, key=banks)


@dataclass(frozen=True)
class TileRows:
    """
    Rows of vectors in Workgroup memory, `stride` vectors apart, with an XOR swizzle.

    The row index modulo `rows` (a power of two), times `weight`, is XORed to the vector index.
    Rows that are read together therefore lie in different banks.
    """

    stride: int
    rows: int = 1
    weight: int = 0

    def place(self, row: int, vector: int) -> int:
        """Returns the address of a row's vector, in vectors."""
        return row * self.stride + (vector ^ row % self.rows * self.weight)

    @property
    def period(self) -> int:
        """Number of vectors after which the swizzle repeats."""
        return self.rows * self.weight
