"""A weight is recognized through any number of operations."""

from __future__ import annotations

import pytest

from xdsl_spirv.passes.analysis.values import is_weight
from xdsl_spirv.runtime.modules import parse_text

STEPS = 1500


@pytest.mark.parametrize("is_known", [True, False])
def test_a_weight_is_recognized_through_concatenations(is_known: bool):
    source = (
        "arith.constant dense<1.0> : tensor<4xf32>"
        if is_known
        else "tensor.empty() : tensor<4xf32>"
    )
    lines = [f"%v0 = {source}"]
    for n in range(STEPS):
        kinds = "(tensor<4xf32>) -> tensor<4xf32>"
        lines.append(f'%v{n + 1} = "tensor.concat"(%v{n}) <{{dim = 0 : i64}}> : {kinds}')
    last = parse_text("\n".join(lines)).body.block.last_op
    assert last is not None
    assert is_weight(last.results[0]) is is_known
