"""The recipes of docs/onnx.md for PyTorch and JAX, against the frameworks' own results."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import xdsl_spirv
from xdsl_spirv.frontends import FrontendError, import_stablehlo

Array = np.ndarray[Any, np.dtype[Any]]


def package(name: str) -> Any:
    """A framework, which is too large for an environment that only tests."""
    for needed in (name, "torch_mlir"):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed (pip install {needed.replace('_', '-')})")
    return import_module(name)


def close(found: Array, expected: Array) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_torch():
    torch = package("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 64, 10),
        torch.nn.LayerNorm(10),
        torch.nn.Softmax(1),
    ).eval()
    x = torch.randn(2, 3, 8, 8)

    exported = torch.export.export(module, (x,))
    program = xdsl_spirv.compile(exported, target="lavapipe")
    y = program(x.numpy())

    close(y, module(x).detach().numpy())
    assert [str(buffer) for buffer in program.manifest.inputs] == ["2x3x8x8xf32"]


@pytest.mark.long
def test_jax():
    jax = package("jax")

    def function(parameters: Any, x: Any) -> Any:
        for weight, bias in parameters:
            x = jax.nn.relu(x @ weight + bias)
        return jax.nn.softmax(x)

    rng = np.random.default_rng(0)
    parameters = [
        (rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape[1], np.float32))
        for shape in ((16, 32), (32, 10))
    ]
    x = rng.standard_normal((4, 16)).astype(np.float32)

    text = jax.jit(function).lower(parameters, x).as_text()
    model = import_stablehlo(text, jax.tree.leaves(parameters))
    y = xdsl_spirv.compile(model, target="lavapipe")(x)

    close(y, np.asarray(function(parameters, x)))


DOT = """
module @jit_f {
  func.func public @main(%arg0: tensor<8x3xui8>, %arg1: tensor<4x8xui8>) -> (tensor<4x3xui8>) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0]
      : (tensor<4x8xui8>, tensor<8x3xui8>) -> tensor<4x3xui8>
    return %0 : tensor<4x3xui8>
  }
}
"""


def test_stablehlo_keeps_signs_and_weights_apart():
    if find_spec("torch_mlir") is None:
        pytest.skip("torch_mlir is not installed (pip install '.[torch]')")
    weights = np.arange(24, dtype=np.uint8).reshape(8, 3)
    model = import_stablehlo(DOT, [weights])
    assert [str(value) for value in model.inputs] == ["arg1: 4x8xui8"]
    x = np.arange(32, dtype=np.uint8).reshape(4, 8)
    y = xdsl_spirv.compile(model, target="lavapipe")(x)
    np.testing.assert_array_equal(y, x @ weights)


def test_stablehlo_that_is_refused():
    if find_spec("torch_mlir") is None:
        pytest.skip("torch_mlir is not installed (pip install '.[torch]')")
    with pytest.raises(FrontendError, match="torch-mlir-opt refuses the module"):
        import_stablehlo("func.func @main() { stablehlo.nothing }")
    with pytest.raises(FrontendError, match="has the shape"):
        import_stablehlo(DOT, [np.zeros((3, 3), np.uint8)])
