"""A kernel's stores are grouped into nests of loops, so that each element is stored once."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from xdsl_spirv.passes.analysis.loops_arrays import Computed, NotLoops, Stored
from xdsl_spirv.passes.analysis.loops_nests import (
    INNER,
    Nest,
    Place,
    all_reductions_of,
    dimensions_along_rows,
    nests_of,
    reductions_of,
)
from xdsl_spirv.passes.analysis.loops_reader import results_of_collective, results_of_operations
from xdsl_spirv.runtime.modules import parse_text

MODULE = parse_text(Path(__file__).with_name("loops_nests.mlir").read_text())
FUNCTIONS = {op.sym_name.data: op for op in MODULE.ops if isinstance(op, FuncOp)}


def nests(name: str) -> tuple[tuple[SSAValue, ...], list[Nest]]:
    """
    Returns a function's arguments, and the nests of loops that compute the function's results.
    """
    ops = list(FUNCTIONS[name].body.block.ops)
    _, results = results_of_operations(ops[:-1], ops[-1].operands)
    return FUNCTIONS[name].args, nests_of(results)


def stored_at(nest: Nest, place: Place) -> list[int]:
    """Returns the elements of the target that a nest of one loop stores at a place."""

    def elements(offsets: object, sizes: object, strides: object) -> list[int]:
        boxes = zip(offsets, sizes, strides, strict=True)  # pyright: ignore
        ((o, n, s),) = boxes
        return [o + i * s for i in range(n)]

    replaced = {at for box in place.replaced for at in elements(*box)}
    own = elements(place.offsets, nest.shape, place.strides)
    return [at for at in own if at not in replaced]


def test_parts_of_a_concatenation_are_nests_of_their_own():
    (x, y, _), (whole, *parts) = nests("joined")
    assert whole.shape == (2, 7)
    ((array, place),) = whole.results
    assert isinstance(array, Computed)
    assert place.replaced == ()
    sources = {nest.shape: nest.results[0] for nest in parts}
    assert [array.value for array, _ in sources.values()] == [y, x]  # pyright: ignore
    assert [place.offsets for _, place in sources.values()] == [(0, 3), (0, 0)]
    assert list(sources) == [(2, 4), (2, 3)]


def test_results_of_one_shape_share_a_nest():
    ops = list(FUNCTIONS["joined"].body.block.ops)
    whole = ops[-1].operands[1]
    _, results = results_of_operations(ops[:-1], [whole, whole])
    (nest,) = nests_of(results)
    assert len(nest.results) == 2


@pytest.mark.parametrize("name", ["laid_over", "apart"])
def test_every_element_is_stored_once_from_the_last_array_that_covers_it(name: str):
    arguments, found = nests(name)
    result = np.full(8, -1)
    for nest in found:
        ((array, place),) = nest.results
        for at in stored_at(nest, place):
            assert result[at] == -1, "stored twice"
            result[at] = arguments.index(array.value)  # pyright: ignore
    expected = {"laid_over": [0, 1, 1, 2, 1, 2, 0, 2], "apart": [0] * 4 + [1] * 4}
    assert result.tolist() == expected[name]


@pytest.mark.parametrize("seed", range(6))
def test_parts_with_strides_are_stored_once(seed: int):
    draw = Random(seed)
    expected, code, names = np.full(24, -1), "%v0 = tensor.empty() : tensor<24xf32>", list[str]()
    for number in range(3):
        stride, size = draw.choice([1, 2, 3]), draw.randrange(1, 7)
        offset = draw.randrange(24 - (size - 1) * stride)
        expected[offset : offset + (size - 1) * stride + 1 : stride] = number
        names.append(f"%x{number}: tensor<{size}xf32>")
        code += (
            f"\n%v{number + 1} = tensor.insert_slice %x{number} into %v{number}[{offset}] [{size}] "
            f"[{stride}] : tensor<{size}xf32> into tensor<24xf32>"
        )
    text = f"func.func @main({', '.join(names)}) -> tensor<24xf32> {{\n{code}"
    (function,) = parse_text(text + "\nreturn %v3 : tensor<24xf32>\n}").ops
    assert isinstance(function, FuncOp)
    *ops, last = function.body.block.ops
    result = np.full(24, -1)
    for nest in nests_of(results_of_operations(ops, last.operands)[1]):
        ((array, place),) = nest.results
        assert isinstance(array, Stored)
        for at in stored_at(nest, place):
            assert result[at] == -1, "stored twice"
            result[at] = function.args.index(array.value)
    assert result.tolist() == expected.tolist()


def test_parts_that_share_no_element_have_nothing_to_test():
    """
    Only a part that another part overlaps has tests whether the other part replaces an element.
    """
    _, found = nests("apart")
    assert [place.replaced for nest in found for _, place in nest.results] == [(), ()]
    _, found = nests("laid_over")
    assert [len(place.replaced) for nest in found for _, place in nest.results] == [0, 1, 2]


def test_an_array_that_is_read_and_written_is_refused():
    _, results = results_of_collective(FUNCTIONS["swapped"].body.block)
    with pytest.raises(NotLoops, match=r"reads %[xy], which its kernel also writes"):
        nests_of(results)


def test_a_reduction_depends_on_the_dimensions_of_its_result():
    _, (nest,) = nests("row_sums")
    assert [rows for _, rows in all_reductions_of(nest)] == [{0}, {0}]
    assert len(reductions_of(nest)) == 2
    assert dimensions_along_rows(nest) == {1}


def test_a_reduction_inside_of_another_is_not_an_outermost_one():
    _, (nest,) = nests("total")
    assert [rows for _, rows in all_reductions_of(nest)] == [set(), {INNER}]
    ((outer, _),) = reductions_of(nest)
    assert outer.sizes == (4,)
    _, (whole, *_) = nests("joined")
    assert dimensions_along_rows(whole) == frozenset(), "without a reduction there are no rows"


def test_dependences_go_through_reshapes():
    _, (nest,) = nests("reshaped_sums")
    assert [rows for _, rows in all_reductions_of(nest)] == [{0, 1}]
    assert dimensions_along_rows(nest) == {2}


RESHAPED = """
func.func @main(%x: tensor<{size}x7xf32>, %s: tensor<{size}xf32>) -> tensor<{result}xf32> {{
  %sum = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<{size}x7xf32>) outs(%s : tensor<{size}xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %n = arith.addf %a, %o : f32
    linalg.yield %n : f32
  }} -> tensor<{size}xf32>
  %e = tensor.empty() : tensor<{source}xf32>
  %b = linalg.broadcast ins(%sum : tensor<{size}xf32>) outs(%e : tensor<{source}xf32>)
    dimensions = {others}
  %shape = arith.constant dense<{shape}> : tensor<{rank}xi32>
  %r = tensor.reshape %b(%shape)
    : (tensor<{source}xf32>, tensor<{rank}xi32>) -> tensor<{result}xf32>
  return %r : tensor<{result}xf32>
}}
"""


@pytest.mark.parametrize(
    ("source", "axis", "result", "expected"),
    [
        ((6, 4), 0, (2, 3, 4), {0, 1}),
        ((6, 4), 0, (6, 2, 2), {0}),
        ((6, 4), 1, (6, 2, 2), {1, 2}),
        ((6, 4), 0, (3, 8), {0, 1}),
        ((6, 4), 1, (3, 8), {1}),
        ((6, 4), 1, (24,), {0}),
        ((2, 3, 4), 2, (6, 4), {1}),
        # Four divides no row of six, so that every dimension counts.
        ((6, 4, 5), 2, (4, 6, 5), {0, 1, 2}),
    ],
)
def test_a_reshape_keeps_the_dimensions_that_overlap(
    source: tuple[int, ...], axis: int, result: tuple[int, ...], expected: set[int]
):
    """The sums run along dimension `axis` of the source of a reshape."""
    others = [n for n in range(len(source)) if n != axis]
    text = RESHAPED.format(
        size=source[axis],
        source="x".join(map(str, source)),
        result="x".join(map(str, result)),
        others=others,
        shape=list(result),
        rank=len(result),
    )
    (function,) = parse_text(text).ops
    assert isinstance(function, FuncOp)
    *ops, last = function.body.block.ops
    (nest,) = nests_of(results_of_operations(ops, last.operands)[1])
    assert [rows for _, rows in all_reductions_of(nest)] == [expected]
