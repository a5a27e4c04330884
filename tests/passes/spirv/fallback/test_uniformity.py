"""The analysis tells if all invocations of a workgroup execute an operation together."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import IntegerAttr

from xdsl_spirv.passes.spirv.fallback.uniformity import Uniformity
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.serialization.encode.target import find_module


def test_uniform_operations_are_those_that_the_file_marks():
    module = find_module(parse_text(Path(__file__).with_name("uniformity.mlir").read_text()))
    uniformity = Uniformity(module)
    checked: list[bool] = []
    for op in module.walk():
        if isinstance(together := op.attributes.get("together"), IntegerAttr):
            checked.append(bool(together.value.data))
            assert uniformity.executed_together(op) == checked[-1], str(op)
    assert sorted(checked) == [False] * 4 + [True] * 4
