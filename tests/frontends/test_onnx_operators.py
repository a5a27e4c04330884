"""Operators give the results of onnx's evaluator. Branches are decided at import if possible."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto


ROOT = Path(__file__).resolve().parents[2]
GENERATOR = np.random.default_rng(3)


def evaluated(model: ModelProto, inputs: dict[str, Any]) -> list[Array]:
    with np.errstate(all="ignore"):
        return import_module("onnx.reference").ReferenceEvaluator(model).run(None, inputs)


def normal(*shape: int) -> Array:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def integers(*values: Any) -> Array:
    return np.array(values, np.int64)


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], list[Any]]] = {
    "cumsum": ("CumSum", {"x": normal(3, 4, 2)}, {"exclusive": 1, "reverse": 1}, [np.array(1)]),
    "top_k": ("TopK", {"x": normal(3, 7, 2)}, {"axis": 1, "largest": 0}, [integers(3)]),
    "one_hot": (
        "OneHot",
        {"x": integers(0, -1, 9, 3)},
        {"axis": 0},
        [np.array(4), np.array([2.0, 5.0], np.float32)],
    ),
    "reverse": (
        "ReverseSequence",
        {"x": normal(4, 3, 2)},
        {"time_axis": 0, "batch_axis": 1},
        [integers(1, 4, 2)],
    ),
    "scatter": (
        "ScatterElements",
        {"x": normal(4, 3)},
        {"axis": 0, "reduction": "max"},
        [np.array([[0, -1, 2], [1, 2, 2]]), normal(2, 3)],
    ),
    "scatter_nd": (
        "ScatterND",
        {"x": normal(4, 3)},
        {"reduction": "add"},
        [np.array([[1], [3], [1]]), normal(3, 3)],
    ),
    "conv_transpose": (
        "ConvTranspose",
        {"x": normal(1, 4, 5, 5)},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        [normal(4, 3, 3, 3), normal(3)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_keeps_its_meaning(onnx: ModuleType, name: str):
    kind, inputs, attributes, constants = CASES[name]
    outputs = 2 if kind == "TopK" else 1
    names = [f"y{i}" for i in range(outputs)]
    given = [*inputs, *(f"c{i}" for i in range(len(constants)))]
    node = onnx.helper.make_node(kind, given, names, name="n", **attributes)
    tensors = [onnx.numpy_helper.from_array(a, f"c{i}") for i, a in enumerate(constants)]

    def values(arrays: dict[str, Any]) -> list[ValueInfoProto]:
        of = onnx.helper.np_dtype_to_tensor_dtype
        return [
            onnx.helper.make_tensor_value_info(n, of(a.dtype), a.shape) for n, a in arrays.items()
        ]

    def made(results: list[Any]) -> ModelProto:
        graph = onnx.helper.make_graph([node], "g", values(inputs), results, tensors)
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])

    empty = [onnx.helper.make_empty_tensor_value_info(n) for n in names]
    truth = evaluated(made(empty), inputs)
    model = made(values(dict(zip(names, truth, strict=True))))
    results = run_reference(import_onnx(model), inputs)
    for found, expected in zip(results.values(), truth, strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def branching(onnx: ModuleType, width: int, rank: int = 1) -> GraphProto:
    """
    Returns a model with an If in a branch of an If.

    y is exp(x) or -x. The inner If removes a first dimension of size 1.
    """
    helper, types = onnx.helper, onnx.TensorProto

    def side(name: str, nodes: list[Any], result: str) -> GraphProto:
        return helper.make_graph(
            nodes, name, [], [helper.make_tensor_value_info(result, types.FLOAT, None)]
        )

    inner = helper.make_node(
        "If",
        ["is_one"],
        ["flat"],
        name="inner",
        then_branch=side("a", [helper.make_node("Squeeze", ["x", "zero"], ["s"])], "s"),
        else_branch=side("b", [helper.make_node("Identity", ["x"], ["i"])], "i"),
    )
    then = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "none"], ["size"]),
        helper.make_node("Equal", ["size", "one"], ["is_one"]),
        inner,
        helper.make_node("Exp", ["flat"], ["t"]),
    ]
    other = [
        helper.make_node("Slice", ["x", "zero", "end", "zero"], ["part"]),
        helper.make_node("Squeeze", ["part", "zero"], ["row"]),
        helper.make_node("Neg", ["row"], ["e"]),
    ]
    outer = helper.make_node(
        "If",
        ["c"],
        ["y"],
        name="outer",
        then_branch=side("then", then, "t"),
        else_branch=side("else", other, "e"),
    )
    numbers = {"zero": [0], "one": 1, "none": 0, "end": [1]}
    graph = helper.make_graph(
        [outer],
        "g",
        [
            helper.make_tensor_value_info("x", types.FLOAT, [width, 4]),
            helper.make_tensor_value_info("c", types.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", types.FLOAT, ["m", "n"][:rank])],
        [onnx.numpy_helper.from_array(np.array(v, np.int64), n) for n, v in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_branches_on_shapes_inside_a_branch_on_an_input(onnx: ModuleType):
    x = np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4)
    model = import_onnx(branching(onnx, 1))
    for condition, expected in ((True, np.exp(x[0])), (False, -x[0])):
        (found,) = run_reference(model, {"x": x, "c": np.array(condition)}).values()
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_sides_of_different_shapes_are_refused_unless_the_condition_is_a_constant(onnx: ModuleType):
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    with pytest.raises(FrontendError, match=r"the branches give .*operator If.*constants"):
        import_onnx(branching(onnx, 2))
    for condition, expected in ((np.array(True), np.exp(x)), (False, -x[0]), (True, np.exp(x))):
        constants = {"c": condition}
        branch = branching(onnx, 2, rank=expected.ndim)
        model = import_onnx(branch, constants=constants)
        (found,) = run_reference(model, {"x": x}).values()
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_page_lists_all_operators():
    command = [sys.executable, str(ROOT / "scripts" / "operator_docs.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0, "python scripts/operator_docs.py"
