"""No false report: with all checks on nothing is found in the kernels that the passes make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xdsl_spirv.interpreter import Options, dispatch, interpret
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.compiler import compile_module, context, parse_text
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.serialization.target import find_module

MATMUL = """
func.func @main(%A: tensor<{m}x{k}xf16>, %B: tensor<{k}x{n}xf16>) -> tensor<{m}x{n}x{r}> {{
  %zero = arith.constant 0.0 : {r}
  %empty = tensor.empty() : tensor<{m}x{n}x{r}>
  %init = linalg.fill ins(%zero : {r}) outs(%empty : tensor<{m}x{n}x{r}>) -> tensor<{m}x{n}x{r}>
  %result = linalg.matmul ins(%A, %B : tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>)
                          outs(%init : tensor<{m}x{n}x{r}>) -> tensor<{m}x{n}x{r}>
  return %result : tensor<{m}x{n}x{r}>
}}
"""

TARGETS = ("lavapipe", "nvidia-h200")
SHAPES = [(64, 64, 64), (65, 33, 70), (1, 17, 300), (130, 7, 5)]


@pytest.mark.parametrize("result", ["f32", "f16"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("target", TARGETS)
def test_matmuls(target: str, shape: tuple[int, int, int], result: str, rng: Any) -> None:
    m, n, k = shape
    program = compile_module(parse_text(MATMUL.format(m=m, n=n, k=k, r=result)), target)
    a = rng.integers(-2, 3, (m, k)).astype(np.float16)
    b = rng.integers(-2, 3, (k, n)).astype(np.float16)
    expected = run(program, {"A": a, "B": b})["result0"]
    kernels = {
        kernel.name: find_module(parse_text(program.code[kernel.name].text, kernel.text, context()))
        for kernel in program.manifest.kernels
    }
    buffers: dict[str, Any] = {"A": a, "B": b}
    dtypes: dict[str, Any] = {"f16": np.float16, "f32": np.float32}
    for buffer in program.manifest.buffers:
        buffers.setdefault(buffer.name, np.zeros(buffer.shape, dtypes[buffer.type]))
    checks = Checks.all()
    options = Options(subgroup_size=program.manifest.subgroup_size, checks=checks)
    for launch in program.manifest.dispatches:
        dispatch(
            kernels[launch.kernel],
            launch.entry_point,
            launch.grid,
            {(x.set, x.binding): buffers[x.buffer] for x in launch.bindings},
            {constant.id: constant.value for constant in launch.spec_constants},
            options=options,
        )
    assert not list(checks.report), str(checks.report)
    assert (buffers["result0"] == expected).all()


def test_checks_reach_the_kernels_of_a_host_function(parse: Any, rng: Any) -> None:
    """`interpret` with checks on a lowered module, and on the module before: nothing is found."""
    from xdsl.passes import PassPipeline
    from xdsl.universe import Universe

    module = parse(MATMUL.format(m=40, n=24, k=32, r="f32"))
    a = rng.integers(-2, 3, (40, 32)).astype(np.float16)
    b = rng.integers(-2, 3, (32, 24)).astype(np.float16)
    expected = interpret(module, [a, b])[0]
    passes = Universe.get_multiverse().all_passes
    PassPipeline.parse_spec(passes, "linalg-to-spirv{target=lavapipe}").apply(context(), module)
    checks = Checks.all()
    found = interpret(module, [a, b], options=Options(subgroup_size=8, checks=checks))[0]
    assert not list(checks.report), str(checks.report)
    assert (found == expected).all()
