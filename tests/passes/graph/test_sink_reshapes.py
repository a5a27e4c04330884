"""A reshape of a product moves behind elementwise operations, which keep their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdsl.context import Context
from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from xdsl_spirv.passes.graph.sink_reshapes import sink_reshapes
from xdsl_spirv.runtime.modules import parse_text

if TYPE_CHECKING:
    from tests.passes.conftest import Validate


class SinkReshapesPass(ModulePass):
    name = "sink-reshapes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp):
                sink_reshapes(function.body.block)


SPLIT = """
#ijk = affine_map<(i, j, k) -> (i, j, k)>
func.func @main(%a: tensor<6x3xf32>, %b: tensor<3x4xf32>, %c: tensor<6x4xf32>, %y: {type})
    -> {returned} {{
  %p = linalg.matmul ins(%a, %b : tensor<6x3xf32>, tensor<3x4xf32>) outs(%c : tensor<6x4xf32>)
    -> tensor<6x4xf32>
  %s = tensor.expand_shape %p [[0, 1], [2]] output_shape [2, 3, 4]
    : tensor<6x4xf32> into tensor<2x3x4xf32>
  %e = tensor.empty() : tensor<2x3x4xf32>
  %r = linalg.generic {{indexing_maps = [{read}, {map}, #ijk],
      iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%s, %y : tensor<2x3x4xf32>, {type}) outs(%e : tensor<2x3x4xf32>) {{
  ^bb0(%u: f32, %v: f32, %o: f32):
    %w = arith.subf %u, %v : f32
    linalg.yield %w : f32
  }} -> tensor<2x3x4xf32>
  {last}
  return {value} : {returned}
}}
"""
MERGED = """
#ij = affine_map<(i, j) -> (i, j)>
func.func @main(%a: tensor<2x3x5xf32>, %b: tensor<2x5x4xf32>, %c: tensor<2x3x4xf32>, %y: {type})
    -> tensor<6x4xf32> {{
  %p = linalg.batch_matmul ins(%a, %b : tensor<2x3x5xf32>, tensor<2x5x4xf32>)
    outs(%c : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %s = tensor.collapse_shape %p [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
  %e = tensor.empty() : tensor<6x4xf32>
  %r = linalg.generic {{indexing_maps = [#ij, {map}, #ij],
      iterator_types = ["parallel", "parallel"]}}
      ins(%s, %y : tensor<6x4xf32>, {type}) outs(%e : tensor<6x4xf32>) {{
  ^bb0(%u: f32, %v: f32, %o: f32):
    %w = arith.subf %u, %v : f32
    linalg.yield %w : f32
  }} -> tensor<6x4xf32>
  return %r : tensor<6x4xf32>
}}
"""


def split_rows(
    type: str = "tensor<4xf32>",
    map: str = "k",
    read: str = "i, j, k",
    last: str = "",
    value: str = "%r",
    returned: str = "tensor<2x3x4xf32>",
) -> str:
    """
    Returns a product whose rows are split before an operand of `type` is subtracted.

    `map` indexes the operand, `read` the product. `last` is a further operation, and `value` is
    returned.
    """
    maps = (f"affine_map<(i, j, k) -> ({indices})>" for indices in (map, read))
    of_operand, of_product = maps
    return SPLIT.format(
        type=type, map=of_operand, read=of_product, last=last, value=value,
        returned=returned,
    )  # fmt: skip


def merge_rows(type: str, map: str) -> str:
    """
    Returns products whose rows are merged before an operand of `type`, indexed by `map`, is
    subtracted.
    """
    return MERGED.format(type=type, map=f"affine_map<(i, j) -> ({map})>")


def sink(text: str) -> ModuleOp:
    module = parse_text(text)
    SinkReshapesPass().apply(Context(), module)
    module.verify()
    return module


def rank_of_difference(text: str) -> int:
    """Returns the number of loops of the subtraction after the pass."""
    (op,) = (op for op in sink(text).walk() if isinstance(op, linalg.ops.GenericOp))
    type = op.results[0].type
    assert isinstance(type, TensorType)
    return type.get_num_dims()


@pytest.mark.parametrize(
    ("type", "map"),
    [
        ("tensor<4xf32>", "k"),
        ("tensor<2x3x4xf32>", "i, j, k"),
        ("tensor<2x3xf32>", "i, j"),
        ("tensor<2x3x1xf32>", "i, j, 0"),
        ("tensor<4x2x3xf32>", "k, i, j"),
        ("f32", ""),
    ],
)
def test_rows_are_split_behind_the_difference(type: str, map: str, validate: Validate):
    text = split_rows(type, map)
    assert rank_of_difference(text) == 2
    validate(text, [SinkReshapesPass()], inputs=2)


@pytest.mark.parametrize(
    ("type", "map"),
    [
        ("tensor<4xf32>", "j"),
        ("tensor<6x4xf32>", "i, j"),
        ("tensor<6xf32>", "i"),
        ("tensor<1x6xf32>", "0, i"),
        ("tensor<4x6xf32>", "j, i"),
    ],
)
def test_rows_are_merged_behind_the_difference(type: str, map: str, validate: Validate):
    text = merge_rows(type, map)
    assert rank_of_difference(text) == 3
    validate(text, [SinkReshapesPass()], inputs=2)


EXP = (
    "%n = linalg.exp ins(%s : tensor<2x3x4xf32>) outs(%e : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>"
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(split_rows("tensor<3xf32>", "j"), id="one of two merged dimensions"),
        pytest.param(split_rows("tensor<3x2xf32>", "j, i"), id="another order of rows"),
        pytest.param(split_rows("tensor<2x2xf32>", "i, i"), id="a dimension twice"),
        pytest.param(split_rows("tensor<3x4xf32>", "0, k"), id="a row of several"),
        pytest.param(split_rows(read="i, j, 0"), id="one column of the product"),
        pytest.param(split_rows(last=EXP), id="another reader of the reshape"),
        pytest.param(
            split_rows(value="%r, %p", returned="tensor<2x3x4xf32>, tensor<6x4xf32>").replace(
                "-> tensor<2x3x4xf32>, tensor<6x4xf32>",
                "-> (tensor<2x3x4xf32>, tensor<6x4xf32>)",
            ),
            id="another reader of the product",
        ),
    ],
)
def test_other_reshapes_stay(text: str):
    module = parse_text(text)
    before = str(module)
    SinkReshapesPass().apply(Context(), module)
    assert str(module) == before


def test_a_reshape_without_a_product_stays():
    product = "linalg.matmul ins(%a, %b : tensor<6x3xf32>, tensor<3x4xf32>)"
    text = split_rows()
    assert product in text
    assert rank_of_difference(text.replace(product, "linalg.exp ins(%c : tensor<6x4xf32>)")) == 3
    assert rank_of_difference(text.replace("expand_shape %p", "expand_shape %c")) == 3


UNDONE = """
func.func @main(%x: tensor<6x4xf32>) -> tensor<6x4xf32> {{
  %s = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 3, 4]
    : tensor<6x4xf32> into tensor<2x3x4xf32>
  %t = tensor.collapse_shape %s {groups} : tensor<2x3x4xf32> into {type}
  {last}
}}
"""


def test_a_reshape_that_undoes_another_is_removed(validate: Validate):
    text = UNDONE.format(
        groups="[[0, 1], [2]]", type="tensor<6x4xf32>", last="return %t : tensor<6x4xf32>"
    )
    assert not any(
        isinstance(op, tensor.ExpandShapeOp | tensor.CollapseShapeOp) for op in sink(text).walk()
    )
    validate(text, [SinkReshapesPass()], inputs=1)
    other = UNDONE.format(
        groups="[[0], [1, 2]]",
        type="tensor<2x12xf32>",
        last="%u = tensor.expand_shape %t [[0], [1, 2]] output_shape [2, 3, 4] : "
        "tensor<2x12xf32> into tensor<2x3x4xf32>\n  return %u : tensor<2x3x4xf32>",
    ).replace("-> tensor<6x4xf32> {", "-> tensor<2x3x4xf32> {")
    assert sum(isinstance(op, tensor.ExpandShapeOp) for op in sink(other).walk()) == 1


def test_successive_reshapes_are_joined(validate: Validate):
    text = """
    func.func @main(%x: tensor<24xf32>) -> tensor<2x3x2x2xf32> {
      %s = tensor.expand_shape %x [[0, 1]] output_shape [6, 4] : tensor<24xf32> into tensor<6x4xf32>
      %t = tensor.expand_shape %s [[0, 1], [2, 3]] output_shape [2, 3, 2, 2]
        : tensor<6x4xf32> into tensor<2x3x2x2xf32>
      return %t : tensor<2x3x2x2xf32>
    }"""
    (op,) = (op for op in sink(text).walk() if isinstance(op, tensor.ExpandShapeOp))
    assert [[n.value.data for n in group] for group in op.reassociation] == [[0, 1, 2, 3]]
    validate(text, [SinkReshapesPass()], inputs=1)
