"""
The index of an array's element determines the iterations that compute it, and the index of the
element in the source.
"""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32, i32
from xdsl.ir import Block, Operation
from xdsl.ir.affine import AffineMap

from xdsl_spirv.passes.analysis.loops_arrays import (
    Array,
    Computed,
    Loops,
    NotLoops,
    Stored,
    Transposed,
    shaped,
)
from xdsl_spirv.runtime.modules import parse_text


def operation() -> Operation:
    (op,) = parse_text("func.func @main(%x: tensor<2xf32>) { return }").ops
    return op


def store_of(*shape: int) -> Stored:
    return Stored(shape, f32, Block(arg_types=[TensorType(f32, shape)]).args[0])


def loops_of(sizes: tuple[int, ...], reduction: tuple[bool, ...]) -> Loops:
    """Returns loops over one input, whose output has the dimensions d2 and d0."""
    maps = [AffineMap.identity(3), AffineMap.from_callable(lambda i, j, k: (k, 0, i))]
    inputs: list[Array] = [store_of(*sizes)]
    outputs: list[Array] = [store_of(sizes[2], 1, sizes[0])]
    return Loops(
        operation(), Block(), sizes, reduction, [*inputs], outputs, maps, {}, [(2, None, 0)]
    )


def test_an_element_determines_the_loops_that_index_it():
    loops = loops_of((4, 5, 6), (False, True, False))
    array = Computed((6, 1, 4), f32, loops, 0)
    assert array.point((3, 0, 2), -1) == [2, -1, 3]
    assert [len(maps) for maps in (loops.input_maps, loops.output_maps)] == [1, 1]
    assert loops.output_maps[0].eval([2, 9, 3], []) == (3, 0, 2)


def test_a_reduction_of_one_iteration_reduces_nothing():
    assert loops_of((4, 5, 6), (False, True, False)).reduces
    assert not loops_of((4, 1, 6), (False, True, False)).reduces
    assert not loops_of((4, 5, 6), (False, False, False)).reduces


@pytest.mark.parametrize("permutation", [(2, 0, 1), (1, -1, 0, 2), (1, 2)])
def test_a_place_undoes_the_transposition(permutation: tuple[int, ...]):
    """Dimension i of the result is dimension `permutation[i]` of the source; -1 is a new one."""
    numbers = np.arange(24).reshape(2, 3, 4)
    kept = tuple(axis for axis in permutation if axis >= 0)
    source = numbers[:1] if 0 not in kept else numbers
    dropped = tuple(axis for axis in range(3) if axis not in kept)
    expected = source.transpose(*dropped, *kept).reshape([source.shape[axis] for axis in kept])
    expected = np.expand_dims(expected, [n for n, axis in enumerate(permutation) if axis < 0])
    array = Transposed(expected.shape, f32, store_of(*source.shape), permutation)
    for at in np.ndindex(*expected.shape):
        assert source[array.place(at, 0)] == expected[at]


def test_only_ranked_tensors_and_buffers_have_a_shape():
    tensor, scalar = Block(arg_types=[TensorType(f32, [2, 3]), i32]).args
    assert shaped(tensor, operation()) == ((2, 3), f32)
    with pytest.raises(NotLoops, match="i32 is not a ranked tensor or memref"):
        shaped(scalar, operation())
