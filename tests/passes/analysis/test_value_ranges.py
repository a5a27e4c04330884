"""A tensor's interval follows from operands; that of an index also from the tensor it indexes."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.dialects.func import FuncOp

from xdsl_spirv.passes.analysis.ranges import Range
from xdsl_spirv.passes.analysis.value_ranges import ValueRanges
from xdsl_spirv.runtime.modules import parse_text

MODULE = parse_text(Path(__file__).with_name("value_ranges.mlir").read_text())
FUNCTIONS = {op.sym_name.data: op for op in MODULE.body.block.ops if isinstance(op, FuncOp)}


@pytest.mark.parametrize("name", ["forwards", "declared"])
def test_a_result_has_the_interval_that_the_file_expects(name: str):
    ranges = ValueRanges(FUNCTIONS[name])
    checked = 0
    for op in FUNCTIONS[name].body.block.ops:
        if isinstance(expected := op.attributes.get("expected"), ArrayAttr):
            low, high = (n.value.data for n in expected if isinstance(n, IntegerAttr))
            assert ranges.of(op.results[0]) == Range(low, high), str(op)
            checked += 1
    assert checked


def test_an_index_lies_in_the_tensor_that_it_addresses():
    function = FUNCTIONS["addresses"]
    x = function.body.block.args[0]
    assert ValueRanges(function).of(x) == Range(-5, 4)
    assert ValueRanges(function, trusted=False).of(x) == Range(-(2**63), 2**63 - 1)
