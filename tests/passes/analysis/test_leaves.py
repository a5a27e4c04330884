"""
The leaves of an operand (the tensors in memory that it is computed from) give the memory index of
each element that an element of the operand needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, TensorType, f16, f32, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, static, symbol
from xdsl_spirv.passes.analysis.epilogue import NotFused, Placed
from xdsl_spirv.passes.analysis.leaves import Leaf, leaf_of, leaves_of
from xdsl_spirv.runtime.modules import parse_text

OPERANDS = """
#all = affine_map<(i, j, k) -> (i, j, k)>
#block = affine_map<(i, j, k) -> (i, j)>
#none = affine_map<(i, j, k) -> ()>
#other = affine_map<(i, j, k) -> (i, 1)>

func.func @scaled(%q: tensor<4x2x8xi8>, %d: tensor<4x2xf16>, %given: f16) -> tensor<4x2x8xf16> {
  %half = arith.constant 0.5 : f16
  %e = tensor.empty() : tensor<4x2x8xf16>
  %f = linalg.fill ins(%half : f16) outs(%e : tensor<4x2x8xf16>) -> tensor<4x2x8xf16>
  %c = linalg.generic {indexing_maps = [#all, #all, #none, #all],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q, %f, %given : tensor<4x2x8xi8>, tensor<4x2x8xf16>, f16)
      outs(%e : tensor<4x2x8xf16>) {
  ^bb0(%x: i8, %h: f16, %g: f16, %o: f16):
    %place = linalg.index 2 : index
    %n = arith.index_cast %place : index to i8
    %m = arith.addi %x, %n : i8
    %y = arith.sitofp %m : i8 to f16
    %z = arith.mulf %y, %h : f16
    linalg.yield %z : f16
  } -> tensor<4x2x8xf16>
  %w = linalg.generic {indexing_maps = [#all, #block, #block, #other, #all],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%c, %d, %d, %d : tensor<4x2x8xf16>, tensor<4x2xf16>, tensor<4x2xf16>, tensor<4x2xf16>)
      outs(%e : tensor<4x2x8xf16>) {
  ^bb0(%x: f16, %s: f16, %t: f16, %u: f16, %o: f16):
    %y = arith.mulf %x, %s : f16
    %z = arith.addf %y, %t : f16
    %v = arith.addf %z, %u : f16
    linalg.yield %v : f16
  } -> tensor<4x2x8xf16>
  return %w : tensor<4x2x8xf16>
}

func.func @padded(%x: tensor<4x6xi8>) -> tensor<5x8xi8> {
  %five = arith.constant 5 : i8
  %p = tensor.pad %x low[0, 1] high[1, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %five : i8
  } : tensor<4x6xi8> to tensor<5x8xi8>
  return %p : tensor<5x8xi8>
}

func.func @padded_by_a_variable(%x: tensor<4x6xi8>, %v: i8) -> tensor<5x8xi8> {
  %p = tensor.pad %x low[0, 1] high[1, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : i8
  } : tensor<4x6xi8> to tensor<5x8xi8>
  return %p : tensor<5x8xi8>
}

func.func @computed_then_padded(%x: tensor<4x6xf32>) -> tensor<5x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %n = linalg.exp ins(%x : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %p = tensor.pad %n low[0, 1] high[1, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<4x6xf32> to tensor<5x8xf32>
  return %p : tensor<5x8xf32>
}

func.func @reduced(%x: tensor<4x6xf32>, %e: tensor<4xf32>) -> tensor<4xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x6xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %t: f32):
    %s = arith.addf %t, %a : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""
MODULE = parse_text(OPERANDS)


def operand(name: str) -> tuple[FuncOp, SSAValue]:
    """Returns a function of `OPERANDS` and the value that it returns."""
    (function,) = (f for f in MODULE.ops if isinstance(f, FuncOp) and f.sym_name.data == name)
    last = function.body.block.last_op
    assert last is not None
    return function, last.operands[0]


def tensor_of(shape: Sequence[int], element: Attribute = f32) -> SSAValue:
    return Block(arg_types=[TensorType(element, shape)]).args[0]


def address(leaf: Leaf, point: Sequence[int]) -> int:
    return int(static([leaf.start])[0] + np.dot(static(leaf.strides), point))


def is_inside(leaf: Leaf, point: Sequence[int]) -> bool:
    """True if a point of the loops is within the bounds (guards) of a leaf."""
    indices = ((g.start + int(np.dot(g.factors, point)), size) for g, size in leaf.guards)
    return all(0 <= index < static([size])[0] for index, size in indices)


@pytest.mark.parametrize("seed", range(8))
def test_addresses_and_bounds_follow_the_index_map(seed: int):
    draw = Random(seed)
    sizes = [draw.choice([1, 2, 3, 4]) for _ in range(3)]
    low = [draw.choice([0, 0, 1, 2]) for _ in range(2)]
    expressions: list[AffineExpr] = [
        AffineDimExpr(0) * draw.choice([1, 2]) + AffineDimExpr(1) - low[0],
        AffineDimExpr(2) * draw.choice([1, 3]) - low[1],
    ]
    map = AffineMap(3, 0, tuple(expressions))
    ends = map.eval([size - 1 for size in sizes], [])
    shape = [max(1, end + draw.choice([-1, 0, 1, 2])) for end in ends]
    leaf = leaf_of(Placed(tensor_of(shape), map), sizes, 7)
    assert leaf.fill == 7
    for point in product(*map_ranges(sizes)):
        row, column = map.eval(point, [])
        assert is_inside(leaf, point) == (0 <= row < shape[0] and 0 <= column < shape[1])
        if is_inside(leaf, point):
            assert address(leaf, point) == row * shape[1] + column
    moving = {loop for loop in range(3) if sizes[loop] > 1}
    assert leaf.loops == moving, "each loop with several iterations moves in memory"


def map_ranges(sizes: Sequence[int]) -> list[range]:
    return [range(size) for size in sizes]


def test_an_index_that_leaves_the_tensor_is_refused_unless_padded():
    map = AffineMap.from_callable(lambda i, j: (i, i + j))
    placed = Placed(tensor_of([8, 9]), map)
    assert leaf_of(placed, [8, 2]).guards == ()
    with pytest.raises(NotFused, match="an operand is read out of bounds"):
        leaf_of(placed, [8, 3])
    (guard,) = leaf_of(placed, [8, 3], 0).guards
    assert guard[1] == 9
    halves = AffineMap.from_callable(lambda i, j: (i // 2 + j,))
    with pytest.raises(NotFused, match="is not a sum of multiples of loops"):
        leaf_of(Placed(tensor_of([9]), halves), [8, 2])


def draw_leaf(draw: Random, element: Attribute) -> tuple[Leaf, list[int]]:
    """Returns a part of a tensor, with its dimensions in random order, and the loops' sizes."""
    sizes = [draw.choice([1, 2, 3, 4, 6, 8]) for _ in range(3)]
    order = draw.sample(range(3), 3)
    more = [draw.choice([0, 0, 0, 1, 2, 4]) for _ in order]
    shape = [sizes[loop] + extra for loop, extra in zip(order, more, strict=True)]
    map = AffineMap(3, 0, tuple(AffineDimExpr(o) + m for o, m in zip(order, more, strict=True)))
    return leaf_of(Placed(tensor_of(shape, element), map), sizes), sizes


def is_aligned(leaf: Leaf, starts: Sequence[range], unit: Sequence[int], width: int) -> bool:
    """
    True if the elements of every unit are whole groups of `width` aligned elements.

    Units of the size `unit` begin at the indices `starts`.
    """
    for at in product(*starts):
        points = product(*(range(a, a + n) for a, n in zip(at, unit, strict=True)))
        places = {address(leaf, point) for point in points}
        if any(place // width * width + i not in places for place in places for i in range(width)):
            return False
    return True


@pytest.mark.parametrize("seed", range(16))
def test_a_piece_is_the_largest_aligned_block(seed: int):
    draw = Random(seed)
    leaf, sizes = draw_leaf(draw, draw.choice([f16, f32]))
    loops = draw.sample(range(3), draw.choice([1, 2, 3]))
    most_bytes = draw.choice([4, 8, 16])
    most = most_bytes // (2 if leaf.element == f16 else 4)
    blocks: list[int] = []
    for unit in product(*([n for n in (1, 2, 3, 4, 6, 8) if size % n == 0] for size in sizes)):
        if all(unit[loop] == 1 or loop in loops for loop in range(3)) and prod(unit) in (2, 4, 8):
            starts = [range(0, size, n) for size, n in zip(sizes, unit, strict=True)]
            if prod(unit) <= most and is_aligned(leaf, starts, unit, prod(unit)):
                blocks.append(prod(unit))
    piece = leaf.piece(sizes, loops, most_bytes)
    unit = [piece.get(loop, 1) for loop in range(3)]
    starts = [range(0, size, n) for size, n in zip(sizes, unit, strict=True)]
    assert set(piece) <= set(loops)
    assert prod(unit) == max(blocks, default=1)
    assert is_aligned(leaf, starts, unit, prod(unit))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("element", [i8, f32])
def test_a_load_is_as_wide_as_alignment_allows(seed: int, element: Attribute):
    draw = Random(seed)
    leaf, sizes = draw_leaf(draw, element)
    unit = [draw.choice([n for n in (1, 2, 4, 8) if size % n == 0]) for size in sizes]
    starts = [range(0, 2 * n, n) for n in unit]
    bytes_each = 1 if element == i8 else 4
    widths = [
        width
        for width in (1, 2, 4, 8, 16)
        if width * bytes_each <= 16
        and prod(static(leaf.placed.shape)) % width == 0
        and is_aligned(leaf, starts, unit, width)
    ]
    assert leaf.width(dict(enumerate(unit)), 16) == max(widths)


def test_blocks_and_loads_may_take_several_loops():
    def leaf(rows: int, columns: int, step: int = 1) -> Leaf:
        map = AffineMap.from_callable(lambda i, j: (i, j * step))
        return leaf_of(Placed(tensor_of([rows, columns * step], f16), map), [rows, columns])

    assert leaf(4, 2).piece([4, 2], [0, 1], 16) == {1: 2, 0: 4}
    assert leaf(2, 2).piece([2, 2], [0, 1], 16) == {1: 2, 0: 2}
    assert leaf(4, 6).piece([4, 6], [0, 1], 16) == {1: 2}, "rows of six cannot be cut in fours"
    assert leaf(8, 6).width({1: 4}, 16) == 2, "every second row begins between groups of four"
    assert leaf(8, 8, 2).width({1: 4}, 16) == 1, "half of the elements are not read"


def test_padding_makes_loads_of_single_elements():
    map = AffineMap.from_callable(lambda i, j: (i, j - 4))
    leaf = leaf_of(Placed(tensor_of([4, 8]), map), [4, 16], 0)
    assert leaf.fast_loop == 1
    assert (leaf.is_guarded(0), leaf.is_guarded(1)) == (False, True)
    assert leaf.piece([4, 16], [1], 16) == {}
    assert leaf.piece([4, 16], [0], 16) == {}
    assert leaf.width({0: 4, 1: 4}, 16) == 1


def test_a_load_of_more_than_four_elements_fills_words():
    """Six elements are loaded in twos. Eight elements of 2 bits are half a word."""
    map = AffineMap.from_callable(lambda i: (i,))
    halves, crumbs = (
        leaf_of(Placed(tensor_of([48], element), map), [48]) for element in (f16, IntegerType(2))
    )
    assert [halves.width({0: n}, 16) for n in (2, 4, 6, 8)] == [2, 4, 2, 8]
    assert [crumbs.width({0: n}, 16) for n in (4, 8, 16)] == [4, 4, 16]


def test_an_open_dimension_is_as_large_as_its_loop():
    rows = symbol(Extent(tensor_of([DYNAMIC_INDEX, 8]), 0))
    placed = Placed(tensor_of([DYNAMIC_INDEX, 8]), AffineMap.from_callable(lambda i, j: (j, i)))
    leaf = leaf_of(placed, [8, rows])
    assert leaf.strides == (1, 8)
    assert leaf.guards == ()
    assert leaf.piece([8, rows], [0, 1], 16) == {0: 4}
    assert leaf.piece([8, rows], [0, 1], 64) == {0: 8}, "rows may be odd"
    turned = Placed(tensor_of([8, DYNAMIC_INDEX]), AffineMap.identity(2))
    strided = leaf_of(turned, [8, rows])
    assert strided.strides == (rows, 1)
    assert strided.piece([8, rows], [1], 16) == {}
    assert strided.width({0: 4, 1: 4}, 16) == 1


def test_leaves_are_the_tensors_in_memory_below_elementwise_operations():
    """Scalars and fills are not leaves. Two reads by one index map are one leaf."""
    function, value = operand("scaled")
    q, d, _ = function.body.block.args
    leaves = leaves_of(value, AffineMap.identity(3), [4, 2, 8])
    read: Mapping[tuple[SSAValue, object], object] = {
        (leaf.placed.value, leaf.start): leaf.strides for leaf in leaves
    }
    assert read == {(q, 0): (16, 8, 1), (d, 0): (2, 1, 0), (d, 1): (2, 0, 0)}
    assert len(leaves) == 3
    assert [leaf.fast_loop for leaf in leaves] == [2, 1, None]


def test_a_padded_leaf_has_bounds_and_the_padding_value():
    function, value = operand("padded")
    (leaf,) = leaves_of(value, AffineMap.identity(2), [5, 8])
    assert leaf.placed.value is function.body.block.args[0]
    assert leaf.fill == 5
    for point in product(range(5), range(8)):
        row, column = point[0], point[1] - 1
        assert is_inside(leaf, point) == (row < 4 and 0 <= column < 6)
        assert address(leaf, point) == row * 6 + column


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("reduced", "computed by linalg.generic, which is not elementwise"),
        ("padded_by_a_variable", "computed by tensor.pad, which is not elementwise"),
        ("computed_then_padded", "the padding of a computed operand cannot be fused"),
    ],
)
def test_other_operands_are_refused(name: str, reason: str):
    _, value = operand(name)
    shape = value.type.get_shape() if isinstance(value.type, TensorType) else ()
    with pytest.raises(NotFused, match=reason):
        leaves_of(value, AffineMap.identity(len(shape)), shape)
