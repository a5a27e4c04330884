"""Long chains of values with two uses each compile, although they have exponentially many paths."""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import parse_text

TYPE = "tensor<4x4xf32>"
LENGTH = 60


def chain(step: str) -> str:
    """Returns a function that repeats `step`, which computes {r} from the previous result {x}."""
    lines = [f"func.func @main(%v0: {TYPE}) -> {TYPE} {{", f"  %e = tensor.empty() : {TYPE}"]
    for number in range(LENGTH):
        before, behind = f"%v{number}", f"%v{number + 1}"
        lines += step.format(x=before, r=behind, t=f"%t{number}", type=TYPE).splitlines()
    return "\n".join([*lines, f"  return %v{LENGTH} : {TYPE}", "}"])


STEPS = {
    "add": "{r} = linalg.add ins({x}, {x} : {type}, {type}) outs(%e : {type}) -> {type}",
    "transpose": (
        "{t} = linalg.transpose ins({x} : {type}) outs(%e : {type}) permutation = [1, 0]\n"
        "{r} = linalg.add ins({x}, {t} : {type}, {type}) outs(%e : {type}) -> {type}"
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_chains_of_values_used_twice_compile(name: str) -> None:
    x = np.arange(16, dtype=np.float32).reshape(4, 4) * 2.0**-LENGTH
    expected = x
    for _ in range(LENGTH):
        expected = expected + (expected if name == "add" else expected.T)
    program = compile_module(parse_text(chain(STEPS[name])), "lavapipe")
    assert np.array_equal(run(program, {"v0": x})["result0"], expected)
