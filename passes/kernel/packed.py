"""
Operands in fragments: how they are packed, and how they are read.

Packing loads each fragment cooperatively and stores what an invocation holds of it, component by
component, side by side; reading is the reverse, one wide load for each invocation. Which elements
those are is the device's own affair: it does the same for both, as both name the same type.
"""

from __future__ import annotations

from xdsl.dialects import gpu
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects.schedule import FlatViewOp
from xdsl_spirv.dialects.spirv.composite import (
    CompositeConstructOp,
    CompositeExtractOp,
    CompositeInsertOp,
)
from xdsl_spirv.dialects.spirv.constants import ConstantOp
from xdsl_spirv.dialects.spirv.conversion import BitcastOp
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixUse, Scope
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.passes.kernel.builder import Index, KernelBuilder
from xdsl_spirv.passes.kernel.staging import StagedOperand
from xdsl_spirv.passes.schedule.packing import PackPlan
from xdsl_spirv.passes.schedule.plan import PackedTile, vector_type


class Share:
    """
    What an invocation holds of fragments of a type, as 32-bit words in memory.

    `place` is the number of the invocation's share in units of shares.
    """

    def __init__(self, builder: KernelBuilder, memory: SSAValue, tile: PackedTile):
        self.builder, self.tile = builder, tile
        self.moved = vector_type(i32, tile.words)
        name = f"{memory.name_hint or 'operand'}_fragments"
        self.memory = builder.at_top(FlatViewOp(memory, self.moved), name)
        self.type = fragment_type(tile)
        per_word = tile.components // tile.words
        self.piece = vector_type(tile.element_type, per_word)

    def load(self, place: Index) -> SSAValue:
        """The words of a fragment."""
        return self.builder.load(self.memory, (place,))

    def fragment(self, words: SSAValue) -> SSAValue:
        """The fragment that they are."""
        b = self.builder
        fragment = b.at_top(ConstantOp(_zero(self.tile.element_type), self.type), "none")
        for number, component in enumerate(self._components(words)):
            fragment = b.add(CompositeInsertOp(component, fragment, [number]))
        return fragment

    def _components(self, words: SSAValue) -> list[SSAValue]:
        b = self.builder
        found: list[SSAValue] = []
        for number in range(self.tile.words):
            word = words
            if self.tile.words > 1:
                word = b.add(CompositeExtractOp(words, [number]))
            piece = b.add(BitcastOp(word, self.piece))
            if isinstance(self.piece, VectorType):
                count = self.piece.get_shape()[0]
                found += [b.add(CompositeExtractOp(piece, [i])) for i in range(count)]
            else:
                found.append(piece)
        return found

    def store(self, fragment: SSAValue, place: Index) -> None:
        """A fragment to where the invocation's share of it is."""
        b, tile = self.builder, self.tile
        components = [
            b.add(CompositeExtractOp(fragment, [number])) for number in range(tile.components)
        ]
        per_word = tile.components // tile.words
        words: list[SSAValue] = []
        for number in range(0, tile.components, per_word):
            parts = components[number : number + per_word]
            piece = parts[0]
            if isinstance(self.piece, VectorType):
                piece = b.add(CompositeConstructOp(parts, self.piece))
            words.append(b.add(BitcastOp(piece, i32)))
        moved = words[0] if len(words) == 1 else b.add(CompositeConstructOp(words, self.moved))
        b.store(moved, self.memory, (place,))


def fragment_type(tile: PackedTile) -> CooperativeMatrixType:
    """The type of a fragment of a packed operand."""
    outer, inner = tile.packing.fragment_sizes
    is_a = tile.packing.use.data == "A"
    rows, columns = (outer, inner) if is_a else (inner, outer)
    use = CooperativeMatrixUse.MatrixAKHR if is_a else CooperativeMatrixUse.MatrixBKHR
    return CooperativeMatrixType(rows, columns, tile.element_type, Scope.Subgroup, use)


def _zero(element: Attribute) -> IntegerAttr | FloatAttr:
    if isinstance(element, IntegerType):
        return IntegerAttr(0, element)
    assert isinstance(element, AnyFloat)
    return FloatAttr(0.0, element)


class PackedOperand:
    """
    The code that reads a subgroup's fragments of one operand, from global memory.

    Where it reads ahead, the words of the fragments to come wait in registers (`waiting`), carried
    by the K loop from tile to tile.
    """

    def __init__(
        self,
        builder: KernelBuilder,
        source: SSAValue,
        tile: PackedTile,
        batch: Index,
        first: Index,
        lane: SSAValue,
        part: tuple[int, int],
    ):
        """
        `first` is the subgroup's first fragment along M or N; `part` says how many fragments it
        has of a tile along M or N, and how many elements a tile is deep along K.
        """
        b = builder
        self.builder, self.tile = builder, tile
        self.share = Share(builder, source, tile)
        self.count, self.depth = part
        _, inner_count, outer_count, _ = tile.packing.shape
        self.unit = tile.subgroup_size
        self.step = outer_count * self.unit
        place = b.plus(b.times(batch, inner_count * self.step), b.times(first, self.unit))
        self.start = b.plus(place, lane)
        self.begin: Index = self.start
        self.following: Index | None = None
        self.waiting: list[SSAValue] = []

    def enter(self, k: Index, following: Index | None = None) -> None:
        """The K tile at element `k` is read from now on; the one at `following` comes after it."""
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
        return [self.share.load(b.plus(begin, offset + i * self.unit)) for i in range(self.count)]

    def fragments(self, count: int, k: int, type: CooperativeMatrixType) -> list[SSAValue]:
        """The subgroup's fragments of the tile at `k` elements along K; see `StagedOperand`."""
        _, inner = self.tile.packing.fragment_sizes
        if not self.tile.reads_ahead:
            words = self.read(k)
        else:
            words = self.waiting
            if k + inner < self.depth:
                self.waiting = self.read(k + inner)
            elif self.following is not None:
                self.waiting = self._read(self.following, 0)
        return [self.share.fragment(each) for each in words]


def lower_pack(
    builder: KernelBuilder, source: SSAValue, destination: SSAValue, made: PackPlan
) -> None:
    """A kernel's whole body: each subgroup packs fragments that lie along K."""
    b, packing = builder, made.packing
    lane = b.at_top(gpu.LaneIdOp(), "lane")
    subgroup: Index = b.at_top(gpu.SubgroupIdOp(), "subgroup") if made.subgroups > 1 else 0
    outer = b.block_id(gpu.DimensionEnum.X, "outer")
    inner = b.block_id(gpu.DimensionEnum.Y, "inner")
    batched = packing.shape[0] > 1
    batch: Index = b.block_id(gpu.DimensionEnum.Z, "batch") if batched else 0
    tile = made.tile
    invocation, invocations = b.thread_id(), made.invocations
    staged = StagedOperand(b, source, made.staged, batch, outer, invocation, invocations, subgroup)
    start = b.times(inner, made.depth)
    staged.store_all(staged.load_all(start), start)
    b.barrier()
    _, depth = packing.fragment_sizes
    first = b.plus(b.times(outer, made.subgroups), subgroup)
    packed = PackedOperand(b, destination, tile, batch, first, lane, (1, made.depth))
    packed.enter(start)
    for k in range(0, made.depth, depth):
        (fragment,) = staged.fragments(1, k, fragment_type(tile))
        packed.share.store(fragment, b.plus(packed.begin, k // depth * packed.step))
