"""Operations that multiply and add are recognized as contractions with loops, types and memory."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic
from xdsl_spirv.passes.analysis.contraction import (
    Contraction,
    NotAContraction,
    canonical_form,
    contraction_of,
)
from xdsl_spirv.passes.analysis.layout import Layout
from xdsl_spirv.runtime.modules import parse_text

MODULE = parse_text(Path(__file__).with_name("contraction.mlir").read_text())
OPERATIONS = {
    function.sym_name.data: op
    for function in MODULE.body.block.ops
    if isinstance(function, FuncOp)
    for op in function.body.block.ops
    if isinstance(op, LinalgStructuredOperation)
}
KNOWN = [name for name, op in OPERATIONS.items() if "expected" in op.attributes]


@pytest.mark.parametrize("name", KNOWN)
def test_loops_are_sorted_into_batch_rows_columns_and_depth(name: str):
    op = OPERATIONS[name]
    expected = op.attributes["expected"]
    assert isinstance(expected, ArrayAttr)
    called, *counts = expected
    contraction = contraction_of(op)
    assert StringAttr(contraction.kernel_name) == called
    assert contraction.counts == tuple(n.value.data for n in counts if isinstance(n, IntegerAttr))
    assert contraction.is_dynamic == (name == "open_rows")
    operands = contraction.a, contraction.b, contraction.init
    again = contraction_of(canonical_form(contraction, *operands))
    assert (again.sizes, again.maps) == (contraction.sizes, contraction.maps)


def test_types_have_the_signs_that_the_body_extends_by():
    assert contraction_of(OPERATIONS["bytes"]).types == ("u8", "s8", "s32")
    assert contraction_of(OPERATIONS["matrices"]).types == ("f16", "f16", "f32")


def addresses(layout: Layout, walk: int) -> list[int]:
    """Returns the offset of each index of a walk (a group of loops) from the first address."""
    axes = layout.walks[walk]
    sizes = [axis.size for axis in axes if not is_dynamic(axis.size)]
    strides = [axis.stride for axis in axes if not is_dynamic(axis.stride)]
    return [int(np.dot(at, strides)) if at else 0 for at in product(*map(range, sizes))]


@pytest.mark.parametrize("name", ["matrices", "batches", "bytes"])
def test_layouts_give_the_addresses_of_a_product(name: str):
    """Reading A and B and writing the result by layout gives numpy's product."""
    contraction: Contraction = contraction_of(OPERATIONS[name])
    rng = np.random.default_rng(1)
    a, b, _ = arrays = [
        rng.integers(0, 9, value.type.get_shape())  # pyright: ignore
        for value in (contraction.a, contraction.b, contraction.init)
    ]
    result = np.zeros(arrays[2].size, int)
    of_a, of_b, of_result = contraction.layouts
    for batch in range(len(addresses(of_a, 0))):
        at = [np.add.outer(addresses(x, 1), addresses(x, 2)) for x in contraction.layouts]
        first, second, third = (addresses(x, 0)[batch] for x in (of_a, of_b, of_result))
        left, right = a.ravel()[at[0] + first], b.ravel()[at[1] + second]
        result[at[2] + third] = left @ right.T
    other = b if name != "bytes" else b.T
    assert np.array_equal(result.reshape(arrays[2].shape), a @ other)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("one_input", r"the operation has 1 input, but a contraction needs 2"),
        ("truth_values", r"the operation multiplies Booleans \(i1\)"),
        ("a_difference", "the body is not a product that is added to the output"),
    ],
)
def test_other_operations_are_refused_with_the_reason(name: str, reason: str):
    with pytest.raises(NotAContraction, match=reason):
        contraction_of(OPERATIONS[name])
