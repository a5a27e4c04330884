"""Factors of a contraction that are expressions become inputs, and the results stay equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdsl.dialects.builtin import TensorType, f16, f32

from xdsl_spirv.passes.analysis.contraction import contraction_of
from xdsl_spirv.passes.analysis.factors import with_pure_factors
from xdsl_spirv.passes.analysis.pointwise import NotAContraction

if TYPE_CHECKING:
    from tests.passes.conftest import GenericOf, ReadFunction, Validate

FILE = "analysis/factors.mlir"


@pytest.mark.parametrize(
    ("name", "element"),
    [("scaled", f32), ("converted_bytes", f16)],
)
def test_a_factor_is_computed_before_the_contraction(
    name: str, element: object, generic_of: GenericOf
):
    op = generic_of(FILE, name)
    before = op.prev_op
    pure = with_pure_factors(op)
    assert pure is not op
    assert pure.prev_op is not before, "an operation stands in front of it now"
    assert len(pure.inputs) == 2
    prepared = pure.inputs[1].type
    assert isinstance(prepared, TensorType)
    assert prepared.element_type == element
    assert contraction_of(pure).kernel_name == "matmul_4x5x6"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("shared_scale", "both factors depend on input 2"),
        ("unused", "no factor depends on input 2"),
    ],
)
def test_factors_that_cannot_be_separated_are_refused(
    name: str, reason: str, generic_of: GenericOf
):
    op = generic_of(FILE, name)
    with pytest.raises(NotAContraction, match=reason):
        with_pure_factors(op)
    assert op.parent is not None, "nothing has changed"


@pytest.mark.parametrize("name", ["scaled", "converted_bytes"])
def test_separating_factors_keeps_the_results(
    name: str, read_function: ReadFunction, validate: Validate
):
    validate(read_function(FILE, name), "linalg-to-contraction", inputs=2)
