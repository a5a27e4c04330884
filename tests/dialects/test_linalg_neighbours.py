"""Code written for plain xDSL has the same effect on `linalg` with this package installed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import Linalg, ops
from xdsl.dialects.linalg.abstract_ops import NamedOperation
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.upstream.linalg_extensions import CONTRACTIONS, MAPPED, POOLINGS, QUANTIZED

TABLES = {f"linalg.{name}" for name in (*CONTRACTIONS, *MAPPED, *POOLINGS, *QUANTIZED)}
SHARED = [op for op in Linalg.operations if op.name in TABLES]
"""xDSL's operations that this package also extends."""

SQUARE = """
func.func @f(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>)
    outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
"""

WINDOW = """
func.func @f(%x: tensor<1x{n}x6x6xf32>, %w: tensor<{w}xf32>, %c: tensor<1x{n}x4x4xf32>)
    -> tensor<1x{n}x4x4xf32> {{
  %r = linalg.{name} {{dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}}
    ins(%x, %w : tensor<1x{n}x6x6xf32>, tensor<{w}xf32>)
    outs(%c : tensor<1x{n}x4x4xf32>) -> tensor<1x{n}x4x4xf32>
  return %r : tensor<1x{n}x4x4xf32>
}}
"""

SCRIPT = """
import sys
import numpy as np
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.interpreter import Interpreter
from xdsl.interpreters import register_implementations
from xdsl.interpreters.shaped_array import ShapedArray
from xdsl.interpreters.utils.ptr import TypedPtr
from xdsl.parser import Parser
from xdsl.universe import Universe

ctx = Context()
beside = sys.argv[1] == "beside"
dialects = Universe.get_multiverse().all_dialects if beside else get_all_dialects()
for name, factory in dialects.items():
    ctx.register_dialect(name, factory)
module = Parser(ctx, sys.stdin.read()).parse_module()
module.verify()
print(module)
interpreter = Interpreter(module)
register_implementations(interpreter, ctx)
a, b, c = (
    ShapedArray(TypedPtr.new_float32([float(i * k % 5) for i in range(16)]), [4, 4])
    for k in (1, 2, 0)
)
print(interpreter.call_op("f", (a, b, c)))
print("xdsl_spirv" in sys.modules)
"""


def operation(text: str) -> NamedOperation:
    (op,) = (op for op in parse_text(text).walk() if isinstance(op, NamedOperation))
    return op


def test_every_shared_operation_is_xdsls_own_class() -> None:
    assert len(SHARED) == 9
    for cls in SHARED:
        assert issubclass(cls, NamedOperation)
        assert cls.__module__ == "xdsl.dialects.linalg.ops"


def test_a_pattern_on_xdsls_class_matches_what_the_parser_makes() -> None:
    matched: list[ops.MatmulOp] = []

    class Count(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: ops.MatmulOp, rewriter: PatternRewriter) -> None:
            matched.append(op)

    module = parse_text(SQUARE)
    PatternRewriteWalker(Count(), apply_recursively=False).rewrite_module(module)
    assert [type(op) for op in matched] == [ops.MatmulOp]


@pytest.mark.parametrize(
    ("name", "cls", "n", "w"),
    [
        ("conv_2d_nchw_fchw", ops.Conv2DNchwFchwOp, 2, "2x2x3x3"),
        ("pooling_nchw_max", ops.PoolingNchwMaxOp, 2, "3x3"),
    ],
)
def test_windows_are_xdsls_classes(
    name: str, cls: type[ops.Conv2DNchwFchwOp], n: int, w: str
) -> None:
    op = operation(WINDOW.format(name=name, n=n, w=w))
    assert type(op) is cls
    rebuilt = cls(op.inputs, op.outputs, op.res.types, strides=op.strides, dilations=op.dilations)
    assert rebuilt.is_structurally_equivalent(op)


def test_xdsls_constructor_builds_what_the_parser_reads() -> None:
    op = operation(SQUARE)
    built = ops.MatmulOp(op.inputs, op.outputs)
    built.verify()
    assert built.is_structurally_equivalent(op)
    assert [len(map.data.results) for map in built.indexing_maps] == [2, 2, 2]


def test_text_and_xdsls_interpreter_agree_with_and_without_this_package() -> None:
    alone, beside = (
        subprocess.run(
            [sys.executable, "-c", SCRIPT, mode],
            input=SQUARE,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for mode in ("alone", "beside")
    )
    assert alone[:-1] == beside[:-1]
    assert (alone[-1], beside[-1]) == ("False", "True")


def test_a_module_of_xdsls_builders_prints_in_the_custom_form() -> None:
    module = parse_text(SQUARE)
    assert isinstance(module, ModuleOp)
    assert "linalg.matmul ins(" in str(module)
