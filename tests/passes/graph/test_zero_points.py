"""Every spelling of "byte - zero point" is recognized as a factor, and its range is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdsl.dialects import arith
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue

from xdsl_spirv.passes.graph.zero_points import Shifted, match_shifted, shift_range

if TYPE_CHECKING:
    from tests.passes.conftest import GenericOf

FILE = "graph/quantized_contractions.mlir"


def factor_of(op: GenericOp, name: str) -> SSAValue:
    """Returns the value with this name in the operation's body: %f is a factor of A, %g of B."""
    values = [result for inner in op.body.block.ops for result in inner.results]
    (factor,) = (value for value in values if value.name_hint == name)
    return factor


def shift_of(op: GenericOp, name: str) -> Shifted | None:
    return match_shifted(factor_of(op, name), op.body.block, op)


@pytest.mark.parametrize(
    ("name", "factor", "signed", "number", "bounds"),
    [
        # An arbitrary i32 zero point gives only the bounds of its type.
        ("scalars", "f", True, None, (-128 - (2**31 - 1), 127 + 2**31)),
        ("mixed_signs", "f", False, None, (0 - (2**31 - 1), 255 + 2**31)),
        ("bytes_of_each_column", "g", True, None, (-128 - 127, 127 + 128)),
        ("differences_of_16_bits", "f", False, 117, (-117, 255 - 117)),
        ("added_and_one_only", "f", False, 128, (-128, 127)),
        ("added_and_one_only", "g", True, 0, (-128, 127)),
        ("known_to_be_1", "f", False, -1, (1, 256)),
    ],
)
def test_a_byte_less_a_zero_point(
    name: str,
    factor: str,
    signed: bool,
    number: int | None,
    bounds: tuple[int, int],
    generic_of: GenericOf,
):
    op = generic_of(FILE, name)
    shift = shift_of(op, factor)
    assert shift is not None
    assert shift.input == "fg".index(factor)
    assert (shift.signed, shift.number) == (signed, number)
    assert shift.is_plain == (number == 0)
    assert shift_range(shift, op.body.block) == bounds


def test_the_other_sign_moves_the_zero_point(generic_of: GenericOf):
    for name, factor in (("added_and_one_only", "g"), ("differences_of_16_bits", "f")):
        op = generic_of(FILE, name)
        shift = shift_of(op, factor)
        assert shift is not None
        other = shift.with_other_sign()
        assert other.signed != shift.signed
        assert shift_range(other, op.body.block) == shift_range(shift, op.body.block)
        assert other.with_other_sign() == shift


def test_a_difference_that_may_wrap_is_not_recognized(generic_of: GenericOf):
    op = generic_of(FILE, "a_difference_that_may_wrap")
    assert shift_of(op, "f") is None
    product = next(inner for inner in op.body.block.ops if isinstance(inner, arith.MuliOp))
    assert match_shifted(product.result, op.body.block, op) is None
