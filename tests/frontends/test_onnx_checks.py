"""A node that is wrong is refused by its name before an importer is started; names stay apart."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compiler.model import compile_model
from xdsl_spirv.frontends import FrontendError, import_onnx
from xdsl_spirv.frontends.torch_mlir_process import TorchMLIR


@pytest.mark.parametrize(
    ("kind", "number", "attributes", "cause"),
    [
        ("Softmax", None, {"axis": 99}, r"'axis' must be in \[-2 , 1\].*99"),
        ("Reshape", [-1, -1], {}, "multiple -1"),
        ("Gather", [99], {}, "index 99 is out of range: the dimension has 2 elements"),
        ("Gather", [-4], {"axis": 1}, "index -4 is out of range: the dimension has 3 elements"),
        ("GatherND", [[1, 3]], {}, "index 3 is out of range: the dimension has 3 elements"),
    ],
)
def test_a_node_that_onnx_does_not_allow_is_refused_at_once(
    kind: str, number: Any, attributes: dict[str, Any], cause: str, onnx: Any, build: Any
):
    rest = [] if number is None else [build.constant("i", np.array(number, np.int64))]
    build.node(kind, ["x", *rest], "y", name="the/node", **attributes)
    model = build.model({"x": ("FLOAT", [2, 3])}, {"y": ("FLOAT", [1, 3])})
    begun = time.monotonic()
    with TorchMLIR() as unused, pytest.raises(FrontendError, match=cause) as raised:
        import_onnx(model, worker=unused)
    assert time.monotonic() - begun < 1
    assert f"node 'the/node', operator {kind}" in str(raised.value)
    assert raised.value.remedy


@pytest.mark.parametrize(
    ("kind", "types", "attributes", "cause"),
    [
        ("Div", "UINT64", {}, "64-bit integers without a sign"),
        ("Pad", "FLOAT", {"mode": "wrap"}, "mode wrap"),
    ],
)
def test_what_would_be_computed_wrongly_is_refused_with_a_remedy(
    kind: str, types: str, attributes: dict[str, Any], cause: str, build: Any, worker: TorchMLIR
):
    other = "x" if kind == "Div" else build.constant("p", np.array([1, 1]))
    build.node(kind, ["x", other], "y", name="the/node", **attributes)
    size = 4 if kind == "Div" else 6
    model = build.model({"x": (types, [4])}, {"y": (types, [size])}, opset=19)
    with pytest.raises(FrontendError, match=cause) as raised:
        import_onnx(model, worker=worker)
    assert f"node 'the/node', operator {kind}" in str(raised.value)
    assert raised.value.remedy


@pytest.mark.parametrize("names", [("x", "temporary0"), ("temporary1", "y"), ("x", "temporary1")])
def test_buffers_keep_the_models_names(names: tuple[str, str], build: Any, worker: TorchMLIR):
    x, y = names
    build.node("MatMul", [x, x], "a")
    build.node("Softmax", ["a"], "b", axis=0)
    build.node("MatMul", ["b", x], "c")
    build.node("MatMul", ["c", "b"], y)
    model = build.model({x: ("FLOAT", [6, 6])}, {y: ("FLOAT", [6, 6])})
    program = compile_model(import_onnx(model, worker=worker), "lavapipe")
    buffers = [buffer.name for buffer in program.manifest.buffers]
    assert len(set(buffers)) == len(buffers)
    assert {x, y} <= set(buffers)
