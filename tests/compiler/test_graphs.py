"""Models as graphs (SPV_ARM_graph) give onnxruntime's results and can be saved and loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdsl_spirv as xs
from xdsl_spirv.compiler.graph_files import GraphProgram, load, save
from xdsl_spirv.compiler.linalg_to_graph import graph_of_model
from xdsl_spirv.compiler.model import load_model
from xdsl_spirv.dialects.spirv.tosa import (
    TosaConv2DOp,
    TosaDepthwiseConv2DOp,
    TosaMatMulOp,
    TosaOp,
    TosaRescaleOp,
)
from xdsl_spirv.interpreter.graphs import run_graph
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.validation import validate
from xdsl_spirv.tools import khronos
from xdsl_spirv.tools.main import main

onnx = pytest.importorskip("onnx", reason="onnx is not installed (pip install '.[onnx]')")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
helper = onnx.helper

PRODUCTS = (TosaConv2DOp, TosaDepthwiseConv2DOp, TosaMatMulOp)

Node = tuple[str, str, str, dict[str, Any]]


def make_model(folder: Path, nodes: list[Node], weights: dict[str, Any], shape: list[int]) -> Path:
    """Writes an ONNX file from rows (operator, inputs, outputs, attributes)."""
    graph = helper.make_graph(
        [helper.make_node(t, i.split(), o.split(), **a) for t, i, o, a in nodes],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(nodes[-1][2].split()[0], onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items()],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def random(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).normal(0, 0.5, shape).astype(np.float32)


NETWORK: list[Node] = [
    ("Conv", "x w1 b1", "a", {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("BatchNormalization", "a s b m v", "n", {}),
    ("HardSwish", "n", "h", {}),
    ("Conv", "h w2", "d", {"group": 6, "dilations": [1, 2], "pads": [1, 2, 1, 2]}),
    ("MaxPool", "d", "p", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 0]}),
    ("AveragePool", "p", "q", {"kernel_shape": [2, 2]}),
    ("ConvTranspose", "q w3", "t", {"strides": [2, 2]}),
    ("Slice", "t zero two axis", "l", {}),
    ("Slice", "t two four axis", "r", {}),
    ("Sigmoid", "l", "g", {}),
    ("Mul", "g r", "gated", {}),
    ("Concat", "gated l", "c", {"axis": 1}),
    ("Resize", "c  scales", "u", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                                  "nearest_mode": "floor"}),
    ("GlobalAveragePool", "u", "e", {}),
    ("Flatten", "e", "f", {}),
    ("Gemm", "f w4 b4", "k", {"transB": 1}),
    ("LayerNormalization", "k s4 b4", "y", {}),
    ("Softmax", "y", "out", {}),
]  # fmt: skip

WEIGHTS: dict[str, Any] = {
    "w1": random(6, 3, 3, 3), "b1": random(6), "s": random(6), "b": random(6), "m": random(6),
    "v": random(6) ** 2 + 1, "w2": random(6, 1, 3, 3), "w3": random(6, 4, 2, 2),
    "w4": random(5, 4), "s4": random(5), "b4": random(5),
    "zero": np.array([0]), "two": np.array([2]), "four": np.array([4]), "axis": np.array([1]),
    "scales": np.array([1, 1, 2, 2], np.float32),
}  # fmt: skip


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> tuple[GraphProgram, Array, Array]:
    """Returns a network's graph, an input and onnxruntime's result."""
    nodes = [(t, i.replace("  ", " _ "), o, a) for t, i, o, a in NETWORK]
    path = make_model(tmp_path_factory.mktemp("graph"), nodes, WEIGHTS, [1, 3, 13, 14])
    model = onnx.load(path)
    for node in model.graph.node:
        for k, name in enumerate(node.input):
            node.input[k] = "" if name == "_" else name
    onnx.save(model, path)
    x = random(1, 3, 13, 14)
    expected = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
    return graph_of_model(load_model(path)), x, expected


def test_a_network_computes_what_onnxruntime_does(network: tuple[GraphProgram, Any, Any]):
    program, x, expected = network
    (result,) = run_graph(program.graph, [x], program.constants)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    names = {op.name.split(".")[-1] for op in program.graph.walk()}
    assert {"Conv2D", "DepthwiseConv2D", "MaxPool2D", "AvgPool2D", "MatMul", "Concat"} <= names


def test_the_validators_accept_a_graph(network: tuple[GraphProgram, Any, Any], spirv_val: str):
    binary = encode(network[0].module)
    assert validate(binary, "vulkan1.3") == []
    assert not khronos.spirv_val(binary, "vulkan1.3")


@pytest.mark.parametrize("name", ["graph", "graph.vgf"])
def test_a_saved_graph_can_be_loaded(
    network: tuple[GraphProgram, Any, Any], name: str, tmp_path: Path
):
    if name.endswith("vgf"):
        pytest.importorskip("vgfpy", reason="Arm's library of VGF files is not installed")
    program, x, _ = network
    path = str(tmp_path / name)
    save(program, path)
    again = load(path)
    assert (again.inputs, again.outputs) == (["x"], ["out"])
    results = [run_graph(p.graph, [x], p.constants)[0] for p in (program, again)]
    assert (results[0] == results[1]).all()


def test_saving_replaces_only_a_folder_with_a_graph(
    network: tuple[GraphProgram, Any, Any], tmp_path: Path
):
    program, _, _ = network
    model = make_model(tmp_path, [("Relu", "x", "y", {})], {}, [2])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(ProgramError, match="contains something other than a graph program"):
        program.save(tmp_path / "mine")
    compile_it = ["compile", str(model), "--form", "graph", "-o"]
    assert main([*compile_it, str(tmp_path / "mine")]) == 1
    assert os.listdir(tmp_path / "mine") == ["thesis.tex"]
    for _ in range(2):
        assert main([*compile_it, str(tmp_path / "graph")]) == 0


ON_LAVAPIPE = """
import sys
import numpy as np
from xdsl_spirv.compiler.graph_files import load
from xdsl_spirv.runtime.vulkan.device import open_device
from xdsl_spirv.runtime.vulkan.errors import MisfitError

program, arrays = load(sys.argv[1]), dict(np.load(sys.argv[2]))
sys.modules["emulation_layer"] = None
try:
    with open_device("vulkan", graphs=True) as device:
        program.run_opened(device, arrays)
except MisfitError as error:
    print(error)
del sys.modules["emulation_layer"]
with open_device("vulkan", graphs=True) as device:
    for _ in range(2):
        np.savez(sys.argv[3], **program.run_opened(device, arrays))
    device.close_graph()
    assert not device.live, device.live
"""


def test_a_device_with_the_layers_executes_a_graph(lavapipe: Path, tmp_path: Path):
    pytest.importorskip("emulation_layer", reason="Arm's emulation layer is not installed")
    nodes: list[Node] = [
        ("Conv", "x w1 b1", "a", {"strides": [2, 2]}),
        ("Relu", "a", "r", {}),
        ("GlobalAveragePool", "r", "out", {}),
    ]
    path = make_model(tmp_path, nodes, WEIGHTS, [1, 3, 7, 8])
    x = random(1, 3, 7, 8)
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    save(graph_of_model(load_model(path)), str(tmp_path / "graph"))
    np.savez(tmp_path / "x.npz", x=x)
    names = ("graph", "x.npz", "y.npz")
    command = [lavapipe, sys.executable, "-c", ON_LAVAPIPE, *(tmp_path / name for name in names)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert not done.returncode, done.stderr
    assert "cannot execute graphs: it lacks tensors" in done.stdout
    with np.load(tmp_path / "y.npz") as outputs:
        np.testing.assert_allclose(outputs["out"], expected, rtol=1e-5, atol=1e-6)


def test_a_validation_layer_that_does_not_know_graphs_is_refused(lavapipe: Path, tmp_path: Path):
    pytest.importorskip("emulation_layer", reason="Arm's emulation layer is not installed")
    manifest = lavapipe.parent / "layers" / "VkLayer_khronos_validation.json"
    if not manifest.exists() or '"api_version": "1.4.309"' not in manifest.read_text():
        pytest.skip("no validation layer that is older than graphs")
    path = make_model(tmp_path, [("Relu", "x", "out", {})], {}, [4])
    save(graph_of_model(load_model(path)), str(tmp_path / "graph"))
    command = [lavapipe, sys.executable, "-m", "xdsl_spirv.tools.main", "run", tmp_path / "graph"]
    done = subprocess.run(
        [*command, "--random", "0", "--device", "vulkan"],
        capture_output=True, text=True, timeout=300, check=False, env=os.environ | {"VVL": "1"},
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "and would crash (vulkan:" in done.stderr


QUANTIZED: list[Node] = [
    ("Conv", "x w1 b1", "a", {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("Relu", "a", "h", {}),
    ("Conv", "h w2", "d", {"group": 6, "pads": [1, 1, 1, 1]}),
    ("Add", "h d", "sum", {}),
    ("GlobalAveragePool", "sum", "e", {}),
    ("Flatten", "e", "f", {}),
    ("Gemm", "f w5 b4", "out", {}),
]


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("activations", ["QInt8", "QUInt8"])
def test_a_quantized_network_multiplies_bytes(tmp_path: Path, per_channel: bool, activations: str):
    quantization = pytest.importorskip("onnxruntime.quantization")
    weights = WEIGHTS | {"w5": random(6, 5)}
    source, path = make_model(tmp_path, QUANTIZED, weights, [1, 3, 8, 8]), tmp_path / "q.onnx"
    inputs = [{"x": random(1, 3, 8, 8) * scale} for scale in (1, 2)]

    class Reader(quantization.CalibrationDataReader):
        def get_next(self):
            return inputs.pop() if inputs else None

    kind = quantization.QuantType[activations]
    quantization.quantize_static(
        source, path, Reader(), quant_format=quantization.QuantFormat.QDQ,
        activation_type=kind, per_channel=per_channel,
    )  # fmt: skip
    x = random(1, 3, 8, 8) * np.float32(1.5)
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    program = graph_of_model(load_model(path))
    np.testing.assert_allclose(program(x, device="interpreter"), expected, atol=1e-6)
    operators = [op for op in program.graph.walk() if isinstance(op, TosaOp)]
    products = [op for op in operators if type(op) in PRODUCTS]
    assert {type(op) for op in products} == set(PRODUCTS)
    assert all("i8" in str(op.operands[0].type) for op in products)
    assert sum(isinstance(op, TosaRescaleOp) for op in operators) == 3
    assert validate(encode(program.module), "vulkan1.3") == []


def test_a_zero_of_many_elements_is_a_null_constant(tmp_path: Path):
    nodes: list[Node] = [("Conv", "x w", "out", {})]
    program = graph_of_model(
        load_model(make_model(tmp_path, nodes, {"w": random(20, 3, 1, 1)}, [1, 3, 4, 4]))
    )
    assert [array.shape for array in program.constants.values()] == [(20, 1, 1, 3)]
    assert sum(op.name == "spirv.ConstantNull" for op in program.graph.walk()) == 1


def test_a_graph_is_called_with_arrays(network: tuple[GraphProgram, Any, Any]):
    program, x, expected = network
    np.testing.assert_allclose(program(x, device="interpreter"), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ProgramError, match=r"the input 'x' is missing"):
        program(device="interpreter")
    with pytest.raises(ProgramError, match=r"there is no device 'gpu'"):
        program(x, device="gpu")


READS: dict[str, tuple[list[Node], dict[str, Any]]] = {
    "rows": ([("Gather", "x i", "out", {"axis": 1})], {"i": [[2, 0], [-1, 1]]}),
    "elements": (
        [("GatherElements", "x i", "out", {"axis": 1})],
        {"i": [[[2, 0, 1, 1]], [[-1, 1, 0, 0]]]},
    ),
    "points": ([("GatherND", "x i", "out", {})], {"i": [[1, 2], [0, -1]]}),
    "mirrored": ([("Pad", "x p", "out", {"mode": "reflect"})], {"p": [0, 1, 2, 0, 1, 1]}),
    "backwards": (
        [("Slice", "x a b c d", "out", {})],
        {"a": [2, 3], "b": [-9, -9], "c": [1, 2], "d": [-1, -2]},
    ),
    "resized": (
        [("Resize", "x none s", "out", {"mode": "linear"})],
        {"none": np.zeros(0, np.float32), "s": np.array([1, 1.5, 2.5], np.float32)},
    ),
    "truths": (
        [
            ("Greater", "x t", "g", {}),
            ("Gather", "g i", "h", {"axis": 1}),
            ("Cast", "h", "out", {"to": 1}),
        ],
        {"t": np.float32(0.1), "i": [2, 2, 0]},
    ),
}


@pytest.mark.parametrize("name", READS)
def test_elements_at_computed_places_are_gathered(name: str, tmp_path: Path):
    nodes, weights = READS[name]
    path, x = make_model(tmp_path, nodes, weights, [2, 3, 4]), random(2, 3, 4)
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    program = graph_of_model(load_model(path))
    np.testing.assert_allclose(program(x, device="interpreter"), expected, rtol=1e-6)
    assert any(op.name == "spirv.Tosa.Gather" for op in program.graph.walk())
    assert validate(encode(program.module), "vulkan1.3") == []


@pytest.mark.parametrize("form", ["folder", "vgf"])
def test_indices_of_64_bits_are_inputs_of_32(tmp_path: Path, form: str):
    if form == "vgf":
        pytest.importorskip("vgfpy", reason="Arm's library of VGF files is not installed")
    path = make_model(tmp_path, [("Gather", "t x", "out", {})], {"t": random(5, 3)}, [4])
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    onnx.save(model, path)
    x = np.array([4, -5, 0, 2])
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    program = graph_of_model(load_model(path))
    assert (program(x, device="interpreter") == expected).all()
    with pytest.raises(ProgramError, match="'x' has numbers beyond 32 bits"):
        program(x + (1 << 40), device="interpreter")
    save(program, str(tmp_path / f"graph.{form}"))
    again = load(str(tmp_path / f"graph.{form}"))
    x = x if form == "folder" else x.astype(np.int32)
    assert (again(x, device="interpreter") == expected).all()


PRODUCT = """
func.func @main(%w: tensor<3x2xf32>, %x: tensor<4x3xf32>) -> tensor<4x2xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x2xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x2xf32>) -> tensor<4x2xf32>
  %r = linalg.matmul ins(%x, %w : tensor<4x3xf32>, tensor<3x2xf32>)
                     outs(%zeros : tensor<4x2xf32>) -> tensor<4x2xf32>
  return %r : tensor<4x2xf32>
}
"""


def test_python_compiles_to_a_graph(tmp_path: Path):
    path = make_model(tmp_path, NETWORK[:1], WEIGHTS, [1, 3, 13, 14])
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": random(1, 3, 13, 14)})
    graph = xs.compile(path, form="graph")
    result = graph(random(1, 3, 13, 14), device="interpreter")
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    w, x = random(3, 2), random(4, 3)
    graph = xs.compile(xs.parse(PRODUCT), form="graph", weights={"w": w})
    graph.save(tmp_path / "graph")
    again = load(str(tmp_path / "graph"))
    assert again.inputs == ["x"]
    np.testing.assert_allclose(again(x, device="interpreter"), x @ w, rtol=1e-6)
    np.testing.assert_allclose(
        xs.compile(xs.parse(PRODUCT), form="graph")(w, x, device="interpreter"), x @ w, rtol=1e-6
    )
    with pytest.raises(ProgramError, match="a graph has one function and no target"):
        xs.compile(path, "lavapipe", form="graph")  # pyright: ignore


def test_operations_without_a_form_in_tosa_are_refused(tmp_path: Path):
    path = make_model(tmp_path, [("TopK", "x k", "out i", {})], {"k": [2]}, [3, 4])
    with pytest.raises(ProgramError, match=r"cannot become a graph: math.isnan has no equivalent"):
        graph_of_model(load_model(path))


def test_open_sizes_are_refused(tmp_path: Path):
    path = make_model(tmp_path, [("Relu", "x", "out", {})], {}, [2, 3])
    model = load_model(path, {}, None)
    assert run_graph(graph_of_model(model).graph, [random(2, 3)])[0].min() == 0
    with pytest.raises(ProgramError, match="cannot be read"):
        load(str(tmp_path / "nothing"))
