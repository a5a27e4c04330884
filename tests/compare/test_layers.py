"""`run --compare-layers` finds the first layer that differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compare.layers import compare_layers
from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.compiler.model import compile_model
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import KernelCode, Program
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.tools.main import main

if TYPE_CHECKING:
    from onnx import ModelProto


SOURCE = """
func.func @main(%A: tensor<40x64xf16>, %B: tensor<64x48xf16>, %C: tensor<48x16xf32>)
    -> tensor<40x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x48xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<40x48xf32>) -> tensor<40x48xf32>
  %half = linalg.matmul ins(%A, %B : tensor<40x64xf16>, tensor<64x48xf16>)
                        outs(%i : tensor<40x48xf32>) -> tensor<40x48xf32>
  %e1 = tensor.empty() : tensor<40x48xf32>
  %wave = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%half : tensor<40x48xf32>) outs(%e1 : tensor<40x48xf32>) {
    ^bb0(%a: f32, %o: f32):
      %t = math.tanh %a : f32
      linalg.yield %t : f32
  } -> tensor<40x48xf32>
  %e2 = tensor.empty() : tensor<40x16xf32>
  %i2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<40x16xf32>) -> tensor<40x16xf32>
  %full = linalg.matmul ins(%wave, %C : tensor<40x48xf32>, tensor<48x16xf32>)
                        outs(%i2 : tensor<40x16xf32>) -> tensor<40x16xf32>
  return %full : tensor<40x16xf32>
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    path = tmp_path_factory.mktemp("layers") / "x.mlir"
    path.write_text(SOURCE)
    return compile_module(path, "lavapipe")


@pytest.fixture
def inputs() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    shapes = {"A": (40, 64), "B": (64, 48)}
    arrays: dict[str, Any] = {
        name: rng.uniform(-1, 1, shape).astype(np.float16) for name, shape in shapes.items()
    }
    return arrays | {"C": rng.uniform(-1, 1, (48, 16)).astype(np.float32)}


def damaged(program: Program, number: int, old: str, new: str) -> Program:
    """
    Returns the program with the text `old` replaced by `new` in the kernel of dispatch `number`.
    """
    name = program.manifest.dispatches[number].kernel
    code = program.code[name]
    assert old in code.text
    changed = find_module(parse_text(code.text.replace(old, new)))
    return replace(program, code=program.code | {name: KernelCode(encode(changed, names=True))})


def test_all_layers_agree(program: Program, inputs: dict[str, Any]):
    compared = list(compare_layers(program, inputs, run))
    assert [each.number for each in compared] == [0, 1]
    assert all(each.passed for each in compared)
    assert all(each.how == "interval" for each in compared)


@pytest.mark.parametrize(
    ("number", "old", "new", "node"),
    [(0, "spirv.FDiv", "spirv.FMul", "wave"), (1, "spirv.GL.Fma", "spirv.GL.FClamp", "full")],
)
def test_the_first_layer_that_differs_is_found(
    number: int, old: str, new: str, node: str, program: Program, inputs: dict[str, Any]
):
    wrong = damaged(program, number, old, new)
    compared = list(compare_layers(wrong, inputs, run))
    assert [each.number for each in compared if not each.passed] == [number]
    found = compared[number]
    assert node in str(found)
    assert found.layer.entry_point in str(found)


def test_the_command_stops_at_the_first_layer_that_differs(
    program: Program,
    inputs: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    damaged(program, 0, "spirv.FDiv", "spirv.FMul").save(tmp_path / "wrong")
    program.save(tmp_path / "right")
    given: list[str] = []
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
        given += ["--input", f"{name}={tmp_path / name}.npy"]
    options = ["--compare-layers", "--device", "interpreter", *given]
    assert main(["run", str(tmp_path / "right"), *options]) == 0
    assert "2 results of layers agree" in capsys.readouterr().out
    assert main(["run", str(tmp_path / "wrong"), *options]) == 1
    text = capsys.readouterr().out
    assert "layer 0 differs" in text
    assert "wave" in text
    assert "layer 1" not in text


def residuals() -> ModelProto:
    """Returns an f16 model whose residuals grow until layer 4 overflows."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT16
    nodes, current = list[Any](), "x"
    for i in range(6):
        nodes.append(helper.make_node("MatMul", [current, "w"], [f"m{i}"], name=f"product{i}"))
        nodes.append(helper.make_node("Add", [current, f"m{i}"], [f"r{i}"], name=f"residual{i}"))
        current = f"r{i}"
    ends = [helper.make_tensor_value_info(name, kind, [2, 16]) for name in ("x", current)]
    weight = onnx.numpy_helper.from_array(np.full((16, 16), 0.5, np.float16), "w")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.filterwarnings("ignore:overflow")
def test_the_layer_that_overflows_first_is_named():
    """Larger inputs overflow in earlier layers, because the model is linear."""
    program = compile_model(import_onnx(residuals()), "lavapipe")
    named = set[int]()
    for scale in 2.0 ** np.arange(-2, 16, 3):
        x = (np.linspace(0.5, 2, 32) * scale).reshape(2, 16).astype(np.float16)
        value, first = x, None
        for layer in range(6):
            product = (value.astype(np.float32) @ np.full((16, 16), 0.5)).astype(np.float16)
            value = value + product
            if first is None and not np.isfinite(value).all():
                first = layer
        broken = [c.number for c in compare_layers(program, {"x": x}, run) if c.not_finite]
        assert broken[:1] == ([] if first is None else [first])
        named |= set(broken[:1])
    assert len(named) > 3


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_the_first_layer_that_overflows_is_named(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model, x = tmp_path / "x.onnx", tmp_path / "x.npy"
    model.write_bytes(residuals().SerializeToString())
    np.save(x, np.linspace(0.5, 2, 32).reshape(2, 16).astype(np.float16))
    command = ["run", str(model), "--input", f"x={x}", "--target", target, "--device"]
    assert main([*command, "interpreter"]) == 0
    assert "r5 is NOT FINITE: 32 of 32 elements" in capsys.readouterr().out
    assert main([*command, "interpreter", "--compare-layers"]) == 0
    printed = capsys.readouterr().out
    assert "is the first whose result is not finite" in printed
    assert "product4 + residual4" in printed
