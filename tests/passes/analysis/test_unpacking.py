"""Operations with block-quantized weights are recognized, with their tensors and loops."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir.affine import AffineMap

from xdsl_spirv.passes.analysis.layout import Axis, Layout
from xdsl_spirv.passes.analysis.unpacking import Unpacking, unpacking_of, unpacks

if TYPE_CHECKING:
    from tests.passes.conftest import GenericOf

FILE = "analysis/unpacking.mlir"
SIZES = 5, 3, 4, 2, 16
GROUPS = range(0), range(1, 2), range(2, 5)
COLUMNS = AffineMap.from_callable(lambda m, n, b, h, j: (n, b, h, j))


def unpacking(op: GenericOp) -> Unpacking | None:
    """Analyzes operand B. K consists of loops over blocks, halves of a block, and elements."""
    return unpacking_of(op, COLUMNS, SIZES, GROUPS)


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("scaled_nibbles", True),
        ("scaled_bytes", True),
        ("centred_nibbles", True),
        ("uneven", False),
        ("floats", False),
    ],
)
def test_an_operation_on_narrow_integers_unpacks(name: str, does: bool, generic_of: GenericOf):
    op = generic_of(FILE, name)
    assert unpacks(op) == does
    assert (unpacking(op) is not None) == does


def test_a_unit_is_a_block_and_its_planes_are_contiguous(generic_of: GenericOf):
    found = unpacking(generic_of(FILE, "scaled_nibbles"))
    assert found is not None
    assert (found.sizes, found.outer, found.units, found.size) == ((2, 16), (4,), 4, 32)
    bytes, scales = found.planes
    # Sixteen bytes contain both nibbles, so the loop over halves does not index them.
    assert (bytes.loops, bytes.count, bytes.inner) == ((1,), 16, 16)
    assert bytes.layout == Layout(0, ((), (Axis(3, 4),), (Axis(4, 1),)))
    assert (scales.loops, scales.count) == ((), 1)
    assert found.bits == 16 * 8 + 16
    assert found.counters == {2: 0, 3: 1}
    assert found.around == {1: 0}


def test_a_part_of_a_unit_has_a_part_of_its_innermost_loop(generic_of: GenericOf):
    found = unpacking(generic_of(FILE, "scaled_bytes"))
    assert found is not None
    assert found.part(4) == replace(found, sizes=(2, 4))


def test_packed_weights_have_no_units_unless_k_is_innermost(generic_of: GenericOf):
    turned = AffineMap.from_callable(lambda m, n, b, h, j: (b, n, h, j))
    assert unpacking_of(generic_of(FILE, "scaled_bytes"), turned, SIZES, GROUPS) is None
