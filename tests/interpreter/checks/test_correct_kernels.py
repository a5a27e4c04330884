"""All checks find nothing in the kernels that the passes make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter import Options, dispatch, interpret
from xdsl_spirv.interpreter.checks import Allowed, Checks
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.testing.differential import generate
from xdsl_spirv.testing.differential import interpret as run_generated
from xdsl_spirv.testing.differential.running import buffers_of, module_of

if TYPE_CHECKING:
    from tests.interpreter.conftest import Parse

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
def test_matmuls_have_no_findings(
    target: str, shape: tuple[int, int, int], result: str, rng: np.random.Generator
) -> None:
    m, n, k = shape
    program = compile_module(parse_text(MATMUL.format(m=m, n=n, k=k, r=result)), target)
    a = rng.integers(-2, 3, (m, k)).astype(np.float16)
    b = rng.integers(-2, 3, (k, n)).astype(np.float16)
    expected = run(program, {"A": a, "B": b})["result0"]
    checks = Checks.all()
    checked = run(program, {"A": a, "B": b}, checks=checks)["result0"]
    assert not list(checks.report), str(checks.report)
    assert (checked == expected).all()


@pytest.mark.parametrize("start", range(0, 48, 12))
def test_generated_kernels_have_no_findings(start: int) -> None:
    """Kernels of all families include unaligned matrices and negative remainders."""
    for seed in range(start, start + 12):
        kernel = generate(seed)
        module = module_of(kernel)
        buffers = buffers_of(kernel)
        checks = Checks.all(allow=(Allowed(rule="ALIGN-03"), Allowed(rule="UNDEF-13")))
        dispatch(
            module,
            "main",
            kernel.machine.groups,
            {(0, number): array for number, array in buffers.items()},
            kernel.spec_constants,
            kernel.push_constants,
            options=Options(subgroup_size=kernel.machine.subgroup, checks=checks),
        )
        assert not list(checks.report), f"{kernel.family} {seed}: {checks.report}"
        for number, array in run_generated(kernel, module).items():
            assert array.tobytes() == buffers[number].tobytes(), f"{kernel.family} {seed}"


def test_checks_reach_the_kernels_of_a_host_function(
    parse: Parse, rng: np.random.Generator
) -> None:
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
