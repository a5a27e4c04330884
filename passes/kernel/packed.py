"""
Packs operands into fragments or panels, and reads packed fragments.

A panel has the elements of one K tile in row-major order. To pack a fragment, a subgroup loads it
cooperatively, and each invocation stores its components contiguously. To read a packed fragment,
each invocation loads its components by one wide load. The device chooses the components of each
invocation. The choice depends only on the matrix type, so the kernels that pack and read agree.
Panels are read like unpacked rows (see `staging`).
"""

from __future__ import annotations

from xdsl.dialects import gpu
from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp, PackedSizes, PackOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import as_one
from xdsl_spirv.passes.kernel.matrix_values import matrix_type, put_together, take_apart, zeros
from xdsl_spirv.passes.kernel.result_tile import Part
from xdsl_spirv.passes.kernel.staging import DirectOperand, StagedOperand
from xdsl_spirv.passes.schedule.packing import PackPlan
from xdsl_spirv.passes.schedule.tiles import PackedTile, StagedTile, vector_type


class FragmentWords:
    """
    Loads an invocation's components of packed fragments as 32-bit words, and converts them.

    The unit of an address `place` is the size of an invocation's words of one fragment.
    """

    def __init__(self, builder: KernelEmitter, tile: PackedTile):
        self.builder, self.tile = builder, tile
        self.moved = vector_type(i32, tile.words)
        self.type = fragment_type(tile)
        per_word = tile.components // tile.words
        self.piece = vector_type(tile.element_type, per_word)
        given = [word.data for word in tile.packing.words]
        self.order = given or list(range(tile.words))
        """Word n of a packed fragment is the invocation's word `order[n]`."""

    def view(self, memory: SSAValue) -> SSAValue:
        """Returns a 1-D view of packed fragments in global memory."""
        name = f"{memory.name_hint or 'operand'}_fragments"
        return self.builder.at_top(FlatViewOp(memory, self.moved), name)

    def load(self, memory: SSAValue, place: Index) -> SSAValue:
        """Loads the invocation's words of the fragment at `place`, an index of fragments."""
        loaded = self.builder.load(memory, (place,))
        if loaded.type == self.moved:
            return loaded
        return self.builder.add(spv.BitcastOp(loaded, self.moved))

    def fragment(self, words: SSAValue) -> SSAValue:
        """Builds a fragment from the invocation's words."""
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
        """Returns the invocation's words of a fragment."""
        b, tile = self.builder, self.tile
        components = take_apart(b, fragment, tile.components)
        per_word = tile.components // tile.words
        words = [components[n * per_word : (n + 1) * per_word] for n in self.order]
        return as_one(b, [part for word in words for part in word], self.moved)


def fragment_type(tile: PackedTile) -> spv.CooperativeMatrixType:
    """Returns the matrix type of a packed operand's fragments."""
    outer, inner = tile.packing.fragment_sizes
    use = tile.packing.use.data
    shape = (outer, inner) if use == "A" else (inner, outer)
    return matrix_type(use, *shape, tile.element_type)


class PackedOperand(DirectOperand):
    """Reads a subgroup's packed fragments. Fragments that are read ahead stay packed as words."""

    def __init__(
        self,
        builder: KernelEmitter,
        source: SSAValue,
        tile: PackedTile,
        part: Part,
        sizes: PackedSizes | None = None,
    ):
        """`sizes` are the packed tensor's sizes; default: the static sizes of the packing."""
        super().__init__(builder, tile.ahead)
        self.tile = tile
        b, first = builder, part.first_fragment(builder)
        self.words = FragmentWords(builder, tile)
        self.memory = self.words.view(source)
        self.count, self.depth = part.count, part.depth
        _, inner_count, outer_count, _ = (sizes or tile.packing.sized(())).shape
        assert not is_dynamic(outer_count)
        self.lanes, (_, self.inner) = tile.subgroup_size, tile.packing.fragment_sizes
        self.step = outer_count * self.lanes
        place = b.plus(b.times(part.batch, inner_count * self.step), b.times(first, self.lanes))
        place = b.plus(place, b.times(part.slice, self.depth // self.inner * self.step))
        self.start = b.plus(place, part.lane)
        self.begin: Index = self.start
        self.following: Index | None = None
        self.held = self.count * self.ahead

    def begin_ahead(self) -> None:
        steps = range(self.ahead)
        self.waiting = [word for step in steps for word in self._read(self.start, step)]

    def enter(self, k: Index, following: Index | None = None) -> None:
        self.begin = self._tile(k)
        self.following = None if following is None else self._tile(following)

    def _tile(self, k: Index) -> Index:
        b = self.builder
        if self.step % self.inner == 0:
            return b.plus(self.start, b.times(k, self.step // self.inner))
        return b.plus(self.start, b.times(b.divided(k, self.inner), self.step))

    def _read(self, begin: Index, step: int) -> list[SSAValue]:
        """Loads words of the subgroup's fragments at index `step` along K, relative to `begin`."""
        places = (step * self.step + i * self.lanes for i in range(self.count))
        return [self.words.load(self.memory, self.builder.plus(begin, place)) for place in places]

    def fragments(self, count: int, k: int, type: spv.CooperativeMatrixType) -> list[SSAValue]:
        step, steps = k // self.inner, self.depth // self.inner
        if not self.ahead:
            words = self._read(self.begin, step)
        else:
            words, self.waiting = self.waiting[: self.count], self.waiting[self.count :]
            coming = step + self.ahead
            if coming < steps:
                self.waiting += self._read(self.begin, coming)
            elif self.following is not None:
                self.waiting += self._read(self.following, coming - steps)
        return [self.words.fragment(word) for word in words]


class StagedFragments(StagedOperand):
    """Reads packed fragments through Workgroup memory."""

    def __init__(
        self,
        builder: KernelEmitter,
        source: SSAValue,
        tile: StagedTile,
        part: Part,
        buffers: int,
    ):
        super().__init__(builder, source, tile, part, buffers)
        packing = tile.packing
        assert packing is not None
        packed = PackedTile(packing, tile.element_type, packing.shape[3] // tile.vector)
        self.words, self.lanes = FragmentWords(builder, packed), packed.subgroup_size
        _, self.inner = packing.fragment_sizes

    def _k_origin(self, k: Index) -> Index:
        return self.builder.divided(k, self.inner)

    def fragments(self, count: int, k: int, type: spv.CooperativeMatrixType) -> list[SSAValue]:
        b, stride, part = self.builder, self.tile.stride, self.part
        first = b.plus(b.times(part.subgroup, count * self.lanes), part.lane)
        slice = b.times(part.slice, part.depth // self.inner * stride)
        first = b.plus(b.plus(first, slice), k // self.inner * stride)
        places = [b.plus(first, number * self.lanes) for number in range(count)]
        return [self.words.fragment(self.words.load(self.memory, place)) for place in places]


def pack(b: KernelEmitter, op: PackOp, plan: PackPlan) -> None:
    """Packs a workgroup's tile of an operand through Workgroup memory."""
    in_panels = plan.packing.is_panels
    own = None if in_panels else (b.lane_id(), b.subgroup_id(plan.subgroups))
    outer = b.block_id(gpu.DimensionEnum.X, "outer")
    inner = b.block_id(gpu.DimensionEnum.Y, "panel" if in_panels else "inner")
    batch: Index = b.block_id(gpu.DimensionEnum.Z, "batch") if plan.grid[2] != 1 else 0
    invocation = b.thread_id()
    lane, subgroup = own or (invocation, 0)
    place = batch, outer, invocation, plan.invocations, lane
    part = Part(*place, subgroup, plan.subgroups, depth=plan.depth)
    staged = StagedOperand(b, op.source, plan.staged, part, zeros_outside=True)
    start = b.times(inner, plan.depth)
    staged.store_all(staged.load_all(start), start)
    b.barrier()
    (_store_panel if in_panels else _store_fragments)(b, op.destination, plan, staged, inner)


def _store_panel(
    b: KernelEmitter, destination: SSAValue, plan: PackPlan, staged: StagedOperand, panel: Index
) -> None:
    """
    Stores the rows of panel `panel` from the staged tile. Transposes them if K is not contiguous in
    the operand.
    """
    vector, (_, panels, rows, depth) = plan.vector, plan.packing.shape
    part, moved = staged.part, vector_type(plan.staged.element_type, vector)
    view = b.at_top(FlatViewOp(destination, moved), "panels")
    panel = b.plus(b.times(part.batch, panels), panel)
    row = b.plus(b.times(panel, rows), b.times(part.tile, plan.counts[0]))
    width = depth // vector
    begin, count = b.times(row, width), plan.counts[0] * width
    for number in range(0, count, part.invocations):
        place = b.plus(part.invocation, number)

        def move(place: Index = place) -> None:
            row, column = b.divided(place, width), b.times(b.remainder(place, width), vector)
            value = as_one(b, staged.along_k(row, column, vector), moved)
            b.store(value, view, (b.plus(begin, place),))

        b.when(b.below(place, count) if number + part.invocations > count else True, move)


def _store_fragments(
    b: KernelEmitter, destination: SSAValue, plan: PackPlan, staged: StagedOperand, inner: Index
) -> None:
    """
    Stores the row of fragments with index `inner` along K from the staged tile. Each subgroup
    stores some of them.
    """
    packed = PackedOperand(b, destination, plan.tile, staged.part, plan.sizes)
    packed.enter(b.times(inner, plan.depth))
    for step, k in enumerate(range(0, plan.depth, packed.inner)):
        (fragment,) = staged.fragments(1, k, fragment_type(plan.tile))
        place = b.plus(packed.begin, step * packed.step)
        b.store(packed.words.words(fragment), packed.memory, (place,))
