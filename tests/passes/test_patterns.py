"""
Patterns visit each operation once, in order, and their refusals propagate unchanged.

Covers: __init__.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.passes import refuse, rewrite_once
from xdsl_spirv.runtime.modules import context

PASSES = Path(__file__).parents[2] / "passes"

MODULE = """
func.func @f() {
  %a = arith.constant 1 : i32
  %b = arith.constant 2 : i32
  %c = arith.constant 3 : i32
  return
}
"""


class Increment(RewritePattern):
    """Adds one to each constant. Refuses the constant with the value `refused`."""

    def __init__(self, refused: int = 0):
        self.refused = refused
        self.seen: list[int] = []

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.ConstantOp, rewriter: PatternRewriter) -> None:
        assert isinstance(op.value, IntegerAttr)
        number = op.value.value.data
        self.seen.append(number)
        if number == self.refused:
            refuse("increment", op, f"{number} is the last number: take a smaller one")
        rewriter.replace(op, arith.ConstantOp(IntegerAttr(number + 1, i32)))


def constants(module: Operation) -> list[int]:
    values = [op.value for op in module.walk() if isinstance(op, arith.ConstantOp)]
    return [value.value.data for value in values if isinstance(value, IntegerAttr)]


def test_operations_are_offered_once_in_order():
    module = Parser(context(), MODULE).parse_module()
    pattern = Increment()
    rewrite_once(module, pattern)
    assert pattern.seen == [1, 2, 3]
    assert constants(module) == [2, 3, 4]


def test_the_first_pattern_that_rewrites_has_the_operation():
    module = Parser(context(), MODULE).parse_module()
    first, second = Increment(), Increment()
    rewrite_once(module, first, second)
    assert second.seen == []
    assert constants(module) == [2, 3, 4]


def test_a_refusal_ends_the_walk_and_prints_no_module():
    module = Parser(context(), MODULE).parse_module()
    pattern = Increment(refused=2)
    with pytest.raises(PassFailedException, match=r"^increment: .*2 is the last number") as refused:
        rewrite_once(module, pattern)
    assert pattern.seen == [1, 2]
    assert constants(module) == [2, 2, 3]
    assert not getattr(refused.value, "__notes__", [])


def test_kernel_code_is_written_by_patterns():
    """No other code searches a module for collectives."""
    walks = [
        path.name
        for stage in ("kernel", "loops")
        for path in sorted((PASSES / stage).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.For | ast.comprehension)
        if ".walk(" in ast.unparse(node.iter) and "CollectiveOp" in ast.unparse(node)
    ]
    assert walks == []
