"""
Operands that are packed into fragments, or into panels (fragments of one row), give right results
for every component mapping.

Covers: kernel/packed.
"""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.passes import PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing.workloads import Workload

TARGET = "lavapipe"
TILE = "workgroup_tile = [16, 16, 16], subgroups = [2, 2], instruction = coopmat 8x8x8"

WORKLOADS = [
    Workload("matmul", {"m": 33, "n": 20, "k": 37}, ("m", "k"), ("k", "n"), ("m", "n")),
    Workload("matmul", {"m": 16, "n": 32, "k": 48}, ("k", "m"), ("n", "k"), ("m", "n")),
    Workload(
        "batch_matmul",
        {"b": 3, "m": 9, "n": 17, "k": 12},
        ("b", "m", "k"),
        ("b", "k", "n"),
        ("b", "m", "n"),
        "s8 -> s32",
    ),
    Workload(
        "convolution",
        {"i": 2, "y": 5, "x": 4, "f": 10, "r": 3, "s": 2, "c": 6},
        ("i", (("y", 2), ("r", 1)), (("x", 1), ("s", 1)), "c"),
        ("r", "s", "c", "f"),
        ("i", "y", "x", "f"),
    ),
]


def _compiled(workload: Workload, a: str, b: str, **weights: np.ndarray) -> Program:
    text = workload.text()
    schedule = f"#schedule.contraction<{TILE}, a = {a}, b = {b}, stages = 2>"
    before, _, after = text.rpartition("{\n  ^bb0")
    scheduled = f"{before}attrs = {{schedule = {schedule}}} {{\n  ^bb0{after}"
    ctx = context()
    module = parse_text(scheduled, "workload", ctx)
    passes = Universe.get_multiverse().all_passes
    PassPipeline.parse_spec(passes, "linalg-to-contraction,form-dispatches").apply(ctx, module)
    return compile_module(module, TARGET, weights=weights)


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
@pytest.mark.parametrize("direct", ["b", "ab"])
def test_packed_operands_are_read_in_place(workload: Workload, direct: str):
    if workload.name == "convolution" and "a" in direct:
        with pytest.raises(PassFailedException, match=r"a = direct, .* read through windows"):
            _compiled(workload, "direct", "direct")
        return
    staged = "staged<padding = 8>"
    a = "direct" if "a" in direct else staged
    program = _compiled(workload, a, "direct")
    assert len(program.manifest.dispatches) == 1 + len(direct)
    inputs = workload.inputs(np.random.default_rng(1))
    checks = Checks.all()
    results = run(program, inputs, checks=checks)
    assert all(each.passed for each in check(program, inputs, results))
    assert not checks.report, str(checks.report)


PANELS = "staged<padding = 8, vector = 8, layout = panels>"


@pytest.mark.parametrize("workload", WORKLOADS[:3], ids=str)
@pytest.mark.parametrize(
    "paths", [(PANELS, PANELS), (PANELS, "direct"), ("staged<padding=8>", PANELS)]
)
def test_panels_hold_the_operand(workload: Workload, paths: tuple[str, str]):
    program = _compiled(workload, *paths)
    packed = sum(path == "direct" or "panels" in path for path in paths)
    assert len(program.manifest.dispatches) == 1 + packed
    inputs = workload.inputs(np.random.default_rng(3))
    checks = Checks.all()
    results = run(program, inputs, checks=checks)
    assert all(each.passed for each in check(program, inputs, results))
    assert not checks.report, str(checks.report)


def test_windows_are_not_packed_into_panels():
    with pytest.raises(PassFailedException, match=r"a = panels, .* read through windows"):
        _compiled(WORKLOADS[3], PANELS, "staged<padding = 8>")


def test_a_weight_is_packed_once():
    workload = WORKLOADS[0]
    inputs = workload.inputs(np.random.default_rng(2))
    program = _compiled(workload, "staged<padding = 8>", "direct", B=inputs.pop("B"))
    assert [each.once for each in program.manifest.dispatches] == [True, False]
    results = run(program, inputs)
    assert all(each.passed for each in check(program, inputs, results))


def test_readers_of_the_packed_form_depend_on_the_mapping():
    text = """
func.func @main(%B: tensor<16x16xf16>) -> tensor<1x2x2x64xf16> {
  %p = schedule.dispatch(%B) : (tensor<16x16xf16>) -> tensor<1x2x2x64xf16> {
  ^bb0(%b: tensor<16x16xf16>):
    %e = tensor.empty() : tensor<1x2x2x64xf16>
    %q = schedule.pack %b into %e by <B, fragment = [8, 8], tile = [8, 8],
      map = affine_map<(n, k) -> (k, n)>, sizes = [16, 16], groups = [0, 1, 1]>
      : tensor<16x16xf16> into tensor<1x2x2x64xf16> -> tensor<1x2x2x64xf16>
    schedule.yield %q : tensor<1x2x2x64xf16>
  }
  func.return %p : tensor<1x2x2x64xf16>
}
"""
    program = compile_module(parse_text(text), TARGET)
    checks = Checks.all()
    values = np.arange(256, dtype=np.float16).reshape(16, 16)
    run(program, {"B": values}, checks=checks)
    assert {finding.rule for finding in checks.report} == {"CHOICE-01"}
