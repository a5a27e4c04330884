"""Poison of `arith` in functions on tensors is reported if a result depends on it."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.transforms.canonicalize import CanonicalizePass

from xdsl_spirv.compare.translation import check_passes
from xdsl_spirv.interpreter import Options, interpret
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.modules import context, parse_text

PROGRAM = """
func.func @main(%x: tensor<4x{0}>, %y: tensor<4x{0}>) -> tensor<4x{1}> {{
  %zero = arith.constant 0 : {1}
  %bad = arith.constant {2} : {0}
  %e = tensor.empty() : tensor<4x{1}>
  %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>,
      affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      ins(%x, %y : tensor<4x{0}>, tensor<4x{0}>) outs(%e : tensor<4x{1}>) {{
  ^bb0(%a: {0}, %b: {0}, %o: {1}):
    %v = arith.{3}
    %is_bad = arith.{4}, %b, %bad : {0}
    %w = arith.select %is_bad, %zero, %v : {1}
    linalg.yield {5} : {1}
  }} -> tensor<4x{1}>
  return %r : tensor<4x{1}>
}}
"""

SHIFTS = [("i16", "i16", "16", f"{name} %a, %b : i16") for name in ("shli", "shrsi", "shrui")]
QUOTIENTS = [
    ("i16", "i16", "0", f"{name} %a, %b : i16")
    for name in ("divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi")
]
CASTS = [("f32", "i8", "300.0", f"{name} %b : f32 to i8") for name in ("fptosi", "fptoui")]


@pytest.mark.parametrize(("source", "result", "bad", "operation"), SHIFTS + QUOTIENTS + CASTS)
def test_poison_is_a_finding_unless_a_select_replaces_it(
    source: str, result: str, bad: str, operation: str
):
    dtype = np.dtype({"f32": "f4", "i16": "i2"}[source])
    x, y = np.array([7, 9, 3, 1], dtype), np.array([1, float(bad), 2, 3], dtype)
    equal = "cmpf oeq" if source == "f32" else "cmpi eq"
    for yielded, count in (("%v", 1), ("%w", 0)):
        module = parse_text(PROGRAM.format(source, result, bad, operation, equal, yielded))
        checks = Checks(undefined=True)
        interpret(module, [x, y], options=Options(checks=checks))
        assert len(checks.report.findings) == count, str(checks.report)


@pytest.mark.parametrize(("source", "result", "bad", "operation"), SHIFTS + QUOTIENTS + CASTS)
def test_poison_of_whole_tensors(source: str, result: str, bad: str, operation: str):
    dtype = np.dtype({"f32": "f4", "i16": "i2"}[source])
    x, y = np.array([7, 9, 3, 1], dtype), np.array([1, float(bad), 2, 3], dtype)
    before, types = operation.replace("%a", "%x").replace("%b", "%y").split(" : ")
    types = " to ".join(f"tensor<4x{each}>" for each in types.split(" to "))
    checks = Checks(undefined=True)
    module = parse_text(f"""
    func.func @main(%x: tensor<4x{source}>, %y: tensor<4x{source}>) -> tensor<4x{result}> {{
      %v = arith.{before} : {types}
      return %v : tensor<4x{result}>
    }}""")
    interpret(module, [x, y], options=Options(checks=checks))
    assert len(checks.report.findings) == 1, str(checks.report)


def test_check_passes_names_poison_before_any_pass():
    ctx = context()
    module = parse_text(PROGRAM.format(*SHIFTS[0], "cmpi eq", "%v"), ctx=ctx)
    report = check_passes(module, [CanonicalizePass()], ctx, inputs=3)
    assert report.finding is None
    assert "before any pass: UNDEF-03" in str(report)
