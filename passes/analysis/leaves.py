"""
Finds the tensors in memory from which a contraction's operand is computed.

    %w = linalg.generic ins(%q, %d) { ... }      the leaves of %w are %q and %d
    contraction ins(%x, %w)

A leaf is indexed by linear functions of the contraction's loops.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from xdsl_spirv.dialects.schedule import PaddedViewOp, SelectedViewOp, bit_width, shaped_of
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic, is_multiple
from xdsl_spirv.passes.analysis.contraction import fill_of, padding_of
from xdsl_spirv.passes.analysis.epilogue import NotFused, Placed, definition, operand_of
from xdsl_spirv.passes.analysis.layout import Linear, NotLinear, RowMajor
from xdsl_spirv.passes.analysis.pointwise import is_pointwise


@dataclass(frozen=True)
class Leaf:
    """
    A row-major tensor in memory. Its element index is `start` + the sum of `strides[d]` * loop d.

    If an index of `guards` is not below its size, the element is the padding value `fill`.
    """

    placed: Placed
    start: Size
    strides: tuple[Size, ...]
    guards: tuple[tuple[Linear, Size], ...] = ()
    fill: int = 0

    @property
    def element(self) -> Attribute:
        return self.placed.element_type

    @cached_property
    def loops(self) -> frozenset[int]:
        """Loops on which the element's address depends."""
        return frozenset(loop for loop, stride in enumerate(self.strides) if stride != 0)

    @property
    def fast_loop(self) -> int | None:
        """The loop with stride 1; None if there is none."""
        return next((loop for loop, stride in enumerate(self.strides) if stride == 1), None)

    def is_guarded(self, loop: int) -> bool:
        """True if a bounds check depends on the loop's index."""
        return any(index.factors[loop] for index, _ in self.guards)

    def piece(
        self, sizes: Sequence[Size], loops: Collection[int], most_bytes: int
    ) -> dict[int, int]:
        """
        Returns a block of elements that are contiguous and aligned in memory, as the number of
        iterations of each loop. It has at most `most_bytes`.

        Only `loops` move within the block, and blocks of this size cover all of their iterations.
        {} stands for a single element.
        """
        count = max(1, most_bytes * 8 // bit_width(self.element))
        while count > 1:
            taken = self._taken(sizes, loops, count)
            if taken is not None:
                return taken
            count //= 2
        return {}

    def _taken(
        self, sizes: Sequence[Size], loops: Collection[int], count: int
    ) -> dict[int, int] | None:
        """
        Returns the block of `count` elements that `piece` describes. Returns None if there is no
        such block.
        """
        taken: dict[int, int] = {}
        left, stride = count, 1
        while left > 1:
            loop = next((loop for loop in loops if self.strides[loop] == stride), None)
            if loop is None or self.is_guarded(loop):
                return None
            size = sizes[loop]
            if is_multiple(size, left):
                taken[loop], left = left, 1
            elif is_dynamic(size) or left % size:
                return None
            else:
                taken[loop], left, stride = size, left // size, stride * size
        others = (s for loop, s in enumerate(self.strides) if loop not in taken)
        return taken if all(is_multiple(s, count) for s in (self.start, *others)) else None

    def width(self, unit: dict[int, int], most_bytes: int) -> int:
        """
        Returns the largest number of elements of a unit that one load of at most `most_bytes` can
        read.

        A unit is `unit[loop]` iterations of some loops, and begins at a multiple of these numbers.
        """
        inner = {loop: n for loop, n in unit.items() if n > 1 and self.strides[loop] != 0}
        if any(is_dynamic(self.strides[loop]) or self.is_guarded(loop) for loop in inner):
            return 1
        places = {0}
        for loop, count in inner.items():
            stride = self.strides[loop]
            assert not is_dynamic(stride)
            places = {place + stride * i for place in places for i in range(count)}
        steps = [self.start, prod(self.placed.shape)]
        steps += [s * unit.get(loop, 1) for loop, s in enumerate(self.strides)]
        bits = bit_width(self.element)
        width = max(1, most_bytes * 8 // bits)
        while width > 1:
            whole = all(
                place // width * width + i in places for place in places for i in range(width)
            )
            words = width <= 4 or width * bits % 32 == 0
            if whole and words and all(is_multiple(step, width) for step in steps):
                break
            width //= 2
        return width


def leaves_of(value: SSAValue, map: AffineMap, sizes: Sequence[Size]) -> tuple[Leaf, ...]:
    """
    Returns the tensors in memory (leaves) from which an operand is computed elementwise.

    `map` indexes the operand by loops of `sizes`. Raises `NotFused` for any other operand.
    """
    leaves: dict[Placed, Leaf] = {}
    _collect(Placed(value, map), sizes, leaves)
    return tuple(leaves.values())


def _collect(placed: Placed, sizes: Sequence[Size], leaves: dict[Placed, Leaf]) -> None:
    op = definition(placed.value)
    match op:
        case tensor.PadOp() | PaddedViewOp() if (inner := read_through_padding(placed)) is not None:
            if definition(inner.value) is None:
                leaves[inner] = leaf_of(inner, sizes, fill_of(placed.value))
            else:
                raise NotFused("the padding of a computed operand cannot be fused")
        case None | SelectedViewOp():
            if isinstance(placed.value.type, TensorType | MemRefType):
                leaves[placed] = leaf_of(placed, sizes)
        case linalg.ops.FillOp() | tensor.SplatOp():
            pass
        case linalg.ops.GenericOp() if is_pointwise(op, asks_place=True):
            for number in range(len(op.inputs)):
                _collect(operand_of(placed, op, number), sizes, leaves)
        case _ if op.name == "arith.constant":
            pass
        case _:
            raise NotFused(f"an operand is computed by {op.name}, which is not elementwise")


def read_through_padding(placed: Placed) -> Placed | None:
    """Returns the tensor inside of a constant padding, with its map; None for other values."""
    owner = placed.value.owner
    if isinstance(owner, tensor.PadOp) and padding_of(owner) is None:
        return None
    assert isinstance(owner, tensor.PadOp | PaddedViewOp)
    low = (owner.static_low if isinstance(owner, tensor.PadOp) else owner.low).get_values()
    inner = [e - before for e, before in zip(placed.map.results, low, strict=True)]
    map = AffineMap(placed.map.num_dims, placed.map.num_symbols, tuple(inner))
    return Placed(owner.operands[0], map)


def leaf_of(placed: Placed, sizes: Sequence[Size], fill: int | None = None) -> Leaf:
    """
    Returns a tensor in memory as a leaf; `fill` is the padding value around the tensor.

    Raises `NotFused` if an index is not linear, or out of bounds without padding.
    """
    shape = [
        sizes[e.position] if is_dynamic(size) and isinstance(e, AffineDimExpr) else size
        for e, size in zip(placed.map.results, placed.shape, strict=True)
    ]
    try:
        place = RowMajor.read(placed.map, len(sizes), shape)
    except NotLinear as error:
        raise NotFused(str(error)) from error
    if fill is None and any(place.leaves(number, sizes) for number in range(len(shape))):
        raise NotFused("an operand is read out of bounds")
    guards = tuple(
        (place.indices[n], size)
        for n, size in enumerate(shape)
        if fill is not None and not place.stays(n, sizes)
    )
    # The index of a part is loaded, so that it moves the address even if its loop has one step.
    moved = selecting_loops(placed)
    alone = (
        0 if size == 1 and loop not in moved else place.step(loop)
        for loop, size in enumerate(sizes)
    )
    return Leaf(placed, place.start, tuple(alone), guards, fill or 0)


def selecting_loops(placed: Placed) -> list[int]:
    """Returns the loops that count parts selected by data (`SelectedViewOp`); [] without such."""
    view = placed.value.owner
    if not isinstance(view, SelectedViewOp):
        return []
    counted = placed.map.results[: shaped_of(view.numbers).get_num_dims()]
    loops = [place.position for place in counted if isinstance(place, AffineDimExpr)]
    assert len(loops) == len(counted)
    return loops
