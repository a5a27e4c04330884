"""What rules write computes what the operator does, as onnx's own evaluator has it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx_narrow import FLOATS, INTEGERS, carry_as_bytes
from xdsl_spirv.frontends.onnx_rules import RULES, decompose
from xdsl_spirv.frontends.torch_mlir_process import TorchMLIR
from xdsl_spirv.interpreter import reference

GENERATOR = np.random.default_rng(3)
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def evaluated(model: Any, inputs: dict[str, Any]) -> list[Any]:
    with np.errstate(all="ignore"):
        return import_module("onnx.reference").ReferenceEvaluator(model).run(None, inputs)


def cast(onnx: Any, source: str, target: str, count: int, **attributes: Any) -> Any:
    types = onnx.TensorProto
    node = onnx.helper.make_node(
        "Cast", ["x"], ["y"], name="c", to=getattr(types, target), **attributes
    )
    values = [
        onnx.helper.make_tensor_value_info(name, getattr(types, kind), [count])
        for name, kind in (("x", source), ("y", target))
    ]
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 25)])


# FLOAT4E2M1 has nothing to give but its largest number where it does not saturate.
@pytest.mark.parametrize(
    ("kind", "saturate"),
    [*((k, 1) for k in FLOATS), *((k, 0) for k in FLOATS if k != "FLOAT4E2M1")],
)
def test_every_half_to_a_float_of_few_bits(onnx: Any, kind: str, saturate: int):
    dtype = onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind))
    with np.errstate(all="ignore"):
        truth = onnx.numpy_helper.saturate_cast(HALVES, dtype) if saturate else HALVES.astype(dtype)
    model = carry_as_bytes(cast(onnx, "FLOAT16", kind, len(HALVES), saturate=saturate))
    (codes,) = evaluated(model, {"x": HALVES})
    assert codes.dtype == np.uint8
    found = codes.view(dtype).astype(np.float32)
    known = ~np.isnan(HALVES.astype(np.float32))
    assert np.array_equal(found[known], truth.astype(np.float32)[known], equal_nan=True)
    if kind != "FLOAT4E2M1":
        assert np.isnan(found[~known]).all()


@pytest.mark.parametrize("kind", [*FLOATS, "FLOAT8E8M0", *INTEGERS])
def test_every_code_to_a_number(onnx: Any, kind: str):
    dtype = onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind))
    bits = INTEGERS.get(kind) or (FLOATS[kind][0] + 1 if kind in FLOATS else 8)
    codes = np.arange(1 << bits, dtype=np.uint8)
    model = carry_as_bytes(cast(onnx, kind, "FLOAT", len(codes)))
    (found,) = evaluated(model, {"x": codes})
    assert np.array_equal(found, codes.view(dtype).astype(np.float32), equal_nan=True)


def test_arithmetic_in_few_bits_is_refused_by_its_node(onnx: Any):
    value = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT8E4M3FN, [3])
        for name in "xy"
    ]
    node = onnx.helper.make_node("Relu", ["x"], ["y"], name="the/relu")
    graph = onnx.helper.make_graph([node], "g", value[:1], value[1:])
    with pytest.raises(ValueError, match=r"the/relu.*float8e4m3fn"):
        carry_as_bytes(onnx.helper.make_model(graph))


def normal(*shape: int) -> Any:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def integers(*values: Any) -> Any:
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
    "unique": ("Unique", {"x": np.array([2, 1, 1, 3, 4, 3], np.float32)}, {"sorted": 1}, []),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_keeps_the_meaning(onnx: Any, name: str):
    kind, inputs, attributes, constants = CASES[name]
    outputs = {"TopK": 2, "Unique": 4}.get(kind, 1)
    names = [f"y{i}" for i in range(outputs)]
    given = [*inputs, *(f"c{i}" for i in range(len(constants)))]
    node = onnx.helper.make_node(kind, given, names, name="n", **attributes)
    tensors = [onnx.numpy_helper.from_array(a, f"c{i}") for i, a in enumerate(constants)]

    def values(arrays: dict[str, Any]) -> list[Any]:
        of = onnx.helper.np_dtype_to_tensor_dtype
        return [
            onnx.helper.make_tensor_value_info(n, of(a.dtype), a.shape) for n, a in arrays.items()
        ]

    def made(results: list[Any]) -> Any:
        graph = onnx.helper.make_graph([node], "g", values(inputs), results, tensors)
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])

    empty = [onnx.helper.make_empty_tensor_value_info(n) for n in names]
    truth = evaluated(made(empty), inputs)
    model = made(values(dict(zip(names, truth, strict=True))))
    assert decompose(model)
    assert kind not in {n.op_type for n in model.graph.node} or kind == "ConvTranspose"
    assert kind in RULES
    for found, expected in zip(evaluated(model, inputs), truth, strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def branching(onnx: Any, width: int, rank: int = 1) -> Any:
    """y = If(c) {Squeeze of x where its first size is 1, as an inner If asks; then exp} {-x}."""
    helper, types = onnx.helper, onnx.TensorProto

    def side(name: str, nodes: list[Any], result: str) -> Any:
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


def test_branches_on_shapes_inside_a_branch_on_an_input(onnx: Any, worker: TorchMLIR):
    x = np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4)
    model = import_onnx(branching(onnx, 1), worker=worker)
    assert [node.op_type for node in model.nodes].count("If") == 0
    for condition, expected in ((True, np.exp(x[0])), (False, -x[0])):
        given = {"x": x, "c": np.array(condition)}
        found = reference(model.module, [given[value.name] for value in model.inputs], "main")
        np.testing.assert_allclose(found[0], expected, rtol=1e-6)


def test_sides_of_different_shapes_are_refused_unless_the_condition_is_a_constant(
    onnx: Any, worker: TorchMLIR
):
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    with pytest.raises(FrontendError, match=r"different shapes.*operator If.*--constant"):
        import_onnx(branching(onnx, 2), worker=worker)
    for condition, expected in ((True, np.exp(x)), (False, -x[0])):
        constants = {"c": np.array(condition)}
        branch = branching(onnx, 2, rank=expected.ndim)
        model = import_onnx(branch, worker=worker, constants=constants)
        found = reference(model.module, [x], "main")
        np.testing.assert_allclose(found[0], expected, rtol=1e-6)
