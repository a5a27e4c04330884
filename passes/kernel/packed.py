"""
Operands in fragments or panels: how they are packed, and how fragments are read.

Packing loads each fragment cooperatively and stores what an invocation holds of it, component by
component, side by side; reading is the reverse, one wide load for each invocation. The device
chooses these elements: it does the same for both, as both name the same type. Panels are read as
rows are (see `staging`).
"""

from __future__ import annotations

from xdsl.dialects import gpu
from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp, PackedSizes
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import as_one
from xdsl_spirv.passes.kernel.matrix_values import matrix_type, put_together, take_apart, zeros
from xdsl_spirv.passes.kernel.staging import StagedOperand
from xdsl_spirv.passes.schedule.packing import FragmentsPlan, PanelsPlan
from xdsl_spirv.passes.schedule.tiles import PackedTile, StagedTile, vector_type


class Words:
    """An invocation's share of fragments of a type as 32-bit words, and back."""

    def __init__(self, builder: KernelEmitter, tile: PackedTile):
        self.builder, self.tile = builder, tile
        self.moved = vector_type(i32, tile.words)
        self.type = fragment_type(tile)
        per_word = tile.components // tile.words
        self.piece = vector_type(tile.element_type, per_word)
        given = [word.data for word in tile.packing.words]
        self.order = given or list(range(tile.words))
        """For each packed word, the number of the word of components that it holds."""

    def fragment(self, words: SSAValue) -> SSAValue:
        """Returns the fragment that words stand for."""
        b = self.builder
        return put_together(b, self._components(words), zeros(b, self.type, "none"))

    def _components(self, words: SSAValue) -> list[SSAValue]:
        b = self.builder
        components: list[SSAValue] = []
        for number in range(self.tile.words):
            word = words
            if self.tile.words > 1:
                word = b.add(spv.CompositeExtractOp(words, [self.order.index(number)]))
            piece = b.add(spv.BitcastOp(word, self.piece))
            if isinstance(self.piece, VectorType):
                components += take_apart(b, piece, self.piece.get_shape()[0])
            else:
                components.append(piece)
        return components

    def words(self, fragment: SSAValue) -> SSAValue:
        """Returns the words of a fragment."""
        b, tile = self.builder, self.tile
        components = take_apart(b, fragment, tile.components)
        per_word = tile.components // tile.words
        words = [components[n * per_word : (n + 1) * per_word] for n in self.order]
        return as_one(b, [part for word in words for part in word], self.moved)


class Share(Words):
    """
    The place of an invocation's share of fragments in memory.

    `place` is the number of the invocation's share in units of shares.
    """

    def __init__(self, builder: KernelEmitter, memory: SSAValue, tile: PackedTile):
        super().__init__(builder, tile)
        name = f"{memory.name_hint or 'operand'}_fragments"
        self.memory = builder.at_top(FlatViewOp(memory, self.moved), name)

    def load(self, place: Index) -> SSAValue:
        """Loads the words of a fragment."""
        return self.builder.load(self.memory, (place,))

    def store(self, fragment: SSAValue, place: Index) -> None:
        """Stores the invocation's share of a fragment at its place in memory."""
        self.builder.store(self.words(fragment), self.memory, (place,))


def fragment_type(tile: PackedTile) -> spv.CooperativeMatrixType:
    """Returns the type of a packed operand's fragments."""
    outer, inner = tile.packing.fragment_sizes
    use = tile.packing.use.data
    shape = (outer, inner) if use == "A" else (inner, outer)
    return matrix_type(use, *shape, tile.element_type)


class PackedOperand:
    """
    The code that reads a subgroup's fragments of one operand, from global memory.

    Where it reads ahead, the words of the fragments to come wait in registers (`waiting`), by step
    along K, carried by the K loop from tile to tile.
    """

    def __init__(
        self,
        builder: KernelEmitter,
        source: SSAValue,
        tile: PackedTile,
        batch: Index,
        first: Index,
        lane: SSAValue,
        part: tuple[int, int],
        slice: Index = 0,
        sizes: PackedSizes | None = None,
    ):
        """
        `first` is the subgroup's first fragment along M or N. `part` is the number of its
        fragments in a tile along M or N, and of its elements along K; it has the `slice`-th such
        part along K. `sizes` are the tensor's dynamic sizes."""
        b = builder
        self.builder, self.tile = builder, tile
        self.within_k = True
        self.share = Share(builder, source, tile)
        self.count, self.depth = part
        _, inner_count, outer_count, _ = (sizes or tile.packing.sized(())).shape
        assert not is_dynamic(outer_count)
        self.lanes = tile.subgroup_size
        self.step = outer_count * self.lanes
        place = b.plus(b.times(batch, inner_count * self.step), b.times(first, self.lanes))
        _, inner = tile.packing.fragment_sizes
        place = b.plus(place, b.times(slice, self.depth // inner * self.step))
        self.start = b.plus(place, lane)
        self.begin: Index = self.start
        self.following: Index | None = None
        self.waiting: list[SSAValue] = []

    @property
    def held(self) -> int:
        """The number of values that wait in registers, one for each fragment that is read ahead."""
        return self.count * self.tile.ahead

    def begin_ahead(self) -> None:
        """Reads the first fragments of the first tile into `waiting`."""
        _, inner = self.tile.packing.fragment_sizes
        self.waiting = [word for step in range(self.tile.ahead) for word in self.read(step * inner)]

    def enter(self, k: Index, following: Index | None = None) -> None:
        """Selects the K tile at element `k`, and the tile at `following` to read ahead."""
        self.begin = self._tile(k)
        self.following = None if following is None else self._tile(following)

    def _tile(self, k: Index) -> Index:
        b = self.builder
        _, inner = self.tile.packing.fragment_sizes
        if self.step % inner == 0:
            return b.plus(self.start, b.times(k, self.step // inner))
        return b.plus(self.start, b.times(b.divided(k, inner), self.step))

    def read(self, k: int) -> list[SSAValue]:
        """The words of the subgroup's fragments at `k` elements along K in the tile."""
        _, inner = self.tile.packing.fragment_sizes
        return self._read(self.begin, k // inner * self.step)

    def _read(self, begin: Index, offset: int) -> list[SSAValue]:
        b = self.builder
        return [self.share.load(b.plus(begin, offset + i * self.lanes)) for i in range(self.count)]

    def fragments(self, count: int, k: int, type: spv.CooperativeMatrixType) -> list[SSAValue]:
        """The subgroup's fragments of the tile at `k` elements along K; see `StagedOperand`."""
        _, inner = self.tile.packing.fragment_sizes
        if not self.tile.ahead:
            words = self.read(k)
        else:
            words, self.waiting = self.waiting[: self.count], self.waiting[self.count :]
            coming = k + self.tile.ahead * inner
            if coming < self.depth:
                self.waiting += self.read(coming)
            elif self.following is not None:
                self.waiting += self._read(
                    self.following, (coming - self.depth) // inner * self.step
                )
        return [self.share.fragment(word) for word in words]


class StagedFragments(StagedOperand):
    """Reads an operand's packed fragments by way of Workgroup memory, in unchanged order."""

    def __init__(
        self,
        builder: KernelEmitter,
        source: SSAValue,
        tile: StagedTile,
        at: tuple[Index, Index, SSAValue, int, Index],
        lane: SSAValue,
        buffers: int,
    ):
        """`at` is batch, tile, invocation, number of invocations, and subgroup."""
        super().__init__(builder, source, tile, *at, buffers)
        packing = tile.packing
        assert packing is not None
        packed = PackedTile(packing, tile.element_type, packing.shape[3] // tile.vector)
        self.words, self.lane, self.lanes = Words(builder, packed), lane, packed.subgroup_size
        _, self.inner = packing.fragment_sizes

    def _k_origin(self, k: Index) -> Index:
        return self.builder.divided(k, self.inner)

    def fragments(self, count: int, k: int, type: spv.CooperativeMatrixType) -> list[SSAValue]:
        """The subgroup's fragments of its slice of the tile at `k` elements along K."""
        b, stride = self.builder, self.tile.stride
        first = b.plus(b.times(self.subgroup, count * self.lanes), self.lane)
        slice = b.times(self.slice, self.depth // self.inner * stride)
        first = b.plus(b.plus(first, slice), k // self.inner * stride)
        places = [b.plus(first, number * self.lanes) for number in range(count)]
        return [self.words.fragment(self._words_at(place)) for place in places]

    def _words_at(self, place: Index) -> SSAValue:
        """Loads an invocation's share; shares too long for a vector are words in memory."""
        share, moved = self.builder.load(self.memory, (place,)), self.words.moved
        return share if share.type == moved else self.builder.add(spv.BitcastOp(share, moved))


def pack_panels(
    b: KernelEmitter, source: SSAValue, destination: SSAValue, plan: PanelsPlan
) -> None:
    """Packs the rows of a panel through Workgroup memory, transposing rows that lie across K."""
    packing, vector = plan.packing, plan.vector
    outer = b.block_id(gpu.DimensionEnum.X, "outer")
    panel = b.block_id(gpu.DimensionEnum.Y, "panel")
    batches, panels, rows, depth = packing.shape
    batch: Index = b.block_id(gpu.DimensionEnum.Z, "batch") if batches > 1 else 0
    invocation, invocations = b.thread_id(), plan.invocations
    staged = StagedOperand(
        b, source, plan.staged, batch, outer, invocation, invocations, zeros_outside=True
    )
    start = b.times(panel, depth)
    staged.store_all(staged.load_all(start), start)
    b.barrier()
    moved = vector_type(plan.staged.element_type, vector)
    view = b.at_top(FlatViewOp(destination, moved), "panels")
    row = b.plus(b.times(b.plus(b.times(batch, panels), panel), rows), b.times(outer, plan.rows))
    width = depth // vector
    begin, count = b.times(row, width), plan.rows * width
    for number in range(0, count, invocations):
        place = b.plus(invocation, number)

        def move(place: Index = place) -> None:
            row, column = b.divided(place, width), b.times(b.remainder(place, width), vector)
            value = as_one(b, staged.along_k(row, column, vector), moved)
            b.store(value, view, (b.plus(begin, place),))

        b.when(b.below(place, count) if number + invocations > count else True, move)


def pack_fragments(
    b: KernelEmitter, source: SSAValue, destination: SSAValue, plan: FragmentsPlan
) -> None:
    """Packs fragments that lie along K, some by each subgroup."""
    lane = b.lane_id()
    subgroup = b.subgroup_id(plan.subgroups)
    outer = b.block_id(gpu.DimensionEnum.X, "outer")
    inner = b.block_id(gpu.DimensionEnum.Y, "inner")
    batches, *_ = plan.sizes.shape
    batch: Index = b.block_id(gpu.DimensionEnum.Z, "batch") if batches != 1 else 0
    tile = plan.tile
    invocation, invocations = b.thread_id(), plan.invocations
    staged = StagedOperand(
        b, source, plan.staged, batch, outer, invocation, invocations, subgroup, zeros_outside=True
    )
    start = b.times(inner, plan.depth)
    staged.store_all(staged.load_all(start), start)
    b.barrier()
    _, depth = plan.packing.fragment_sizes
    first = b.plus(b.times(outer, plan.subgroups), subgroup)
    part = (1, plan.depth)
    packed = PackedOperand(b, destination, tile, batch, first, lane, part, sizes=plan.sizes)
    packed.enter(start)
    for k in range(0, plan.depth, depth):
        (fragment,) = staged.fragments(1, k, fragment_type(tile))
        packed.share.store(fragment, b.plus(packed.begin, k // depth * packed.step))
