"""Invalid nodes are refused before import with an error that names them, and names stay unique."""

from __future__ import annotations

import time
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.frontends import FrontendError, import_onnx

if TYPE_CHECKING:
    from tests.frontends.conftest import Builder


@pytest.mark.parametrize(
    ("kind", "number", "attributes", "cause"),
    [
        ("Softmax", None, {"axis": 99}, "axis 99 is outside of 2 dimensions"),
        ("Reshape", [-1, -1], {}, "several sizes are -1"),
        ("Gather", [99], {}, "index 99 is out of range: the dimension has 2 elements"),
        ("Gather", [-4], {"axis": 1}, "index -4 is out of range: the dimension has 3 elements"),
        ("GatherND", [[1, 3]], {}, "index 3 is out of range: the dimension has 3 elements"),
    ],
)
def test_a_node_that_onnx_does_not_allow_is_refused_at_once(
    kind: str, number: Any, attributes: dict[str, Any], cause: str, onnx: ModuleType, build: Builder
):
    rest = [] if number is None else [build.constant("i", np.array(number, np.int64))]
    build.node(kind, ["x", *rest], "y", name="the/node", **attributes)
    model = build.model({"x": ("FLOAT", [2, 3])}, {"y": ("FLOAT", [1, 3])})
    begun = time.process_time()
    with pytest.raises(FrontendError, match=cause) as raised:
        import_onnx(model)
    assert time.process_time() - begun < 5
    assert f"node 'the/node', operator {kind}" in str(raised.value)
    assert raised.value.remedy


def test_updates_of_another_shape_than_their_indices_are_refused(build: Builder):
    indices = build.constant("i", np.array([[0, 1]], np.int64))
    build.node("ScatterElements", ["x", indices, "u"], "y", name="n")
    model = build.model({"x": ("FLOAT", [2, 3]), "u": ("FLOAT", [2, 3])}, {"y": ("FLOAT", [2, 3])})
    with pytest.raises(FrontendError, match="the indices are 1x2xi64, but the updates are 2x3xf32"):
        import_onnx(model)


def test_an_unknown_mode_is_refused_with_a_remedy(build: Builder):
    build.node("Pad", ["x", build.constant("p", np.array([1, 1]))], "y", name="n", mode="around")
    model = build.model({"x": ("FLOAT", [4])}, {"y": ("FLOAT", [6])}, opset=19)
    with pytest.raises(FrontendError, match=r"'around' is not supported \(node 'n'") as raised:
        import_onnx(model)
    assert raised.value.remedy


def test_unsigned_integers_of_64_bits_are_divided(build: Builder):
    build.node("Div", ["x", "d"], "y")
    model = build.model({"x": ("UINT64", [3]), "d": ("UINT64", [3])}, {"y": ("UINT64", [3])})
    x = np.array([2**64 - 1, 2**63, 7], np.uint64)
    d = np.array([3, 2**63 + 1, 2], np.uint64)
    (found,) = run_reference(import_onnx(model), {"x": x, "d": d}).values()
    assert np.array_equal(found, x // d)


@pytest.mark.parametrize("names", [("x", "temporary0"), ("temporary1", "y"), ("x", "temporary1")])
def test_buffers_keep_the_models_names(names: tuple[str, str], build: Builder):
    x, y = names
    build.node("MatMul", [x, x], "a")
    build.node("Softmax", ["a"], "b", axis=0)
    build.node("MatMul", ["b", x], "c")
    build.node("MatMul", ["c", "b"], y)
    model = build.model({x: ("FLOAT", [6, 6])}, {y: ("FLOAT", [6, 6])})
    program = compile_model(import_onnx(model), "lavapipe")
    buffers = [buffer.name for buffer in program.manifest.buffers]
    assert len(set(buffers)) == len(buffers)
    assert {x, y} <= set(buffers)
