"""Attention is recognized in the forms that exporters write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.compare.intervals import tolerances
from xdsl_spirv.compiler.model import compile_model
from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.dialects.schedule import AttentionOp
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.interpreter import interpret
from xdsl_spirv.runtime.modules import context

if TYPE_CHECKING:
    from onnx import ModelProto

    from tests.frontends.conftest import Builder

HEADS, HEAD, LENGTH = 2, 8, 12


def block(build: Builder) -> ModelProto:
    """Returns a model with q, k, v (1 x length x heads * head) and a 0/1 mask of keys."""
    shape = build.constant("split", np.array([1, LENGTH, HEADS, HEAD]))
    half = build.constant("root", np.array(HEAD**0.5, np.float16))
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        build.node("Reshape", [name, shape], f"{name}_split")
        build.node("Transpose", [f"{name}_split"], f"{name}_heads", perm=order)
    build.node("MatMul", ["q_heads", "k_heads"], "scores")
    build.node("Div", ["scores", half], "scaled")
    one = build.constant("one", np.array(1, np.float16))
    least = build.constant("least", np.array(-30000, np.float16))
    build.node("Sub", [one, "mask"], "hidden")
    build.node("Mul", ["hidden", least], "added")
    build.node("Add", ["scaled", "added"], "masked")
    build.node("Softmax", ["masked"], "p", axis=-1)
    build.node("MatMul", ["p", "v_heads"], "mixed")
    build.node("Transpose", ["mixed"], "back", perm=[0, 2, 1, 3])
    build.node("Reshape", ["back", build.constant("m", np.array([1, LENGTH, -1]))], "out")
    whole = ("FLOAT16", [1, LENGTH, HEADS * HEAD])
    inputs = {name: whole for name in "qkv"} | {"mask": ("FLOAT16", [1, 1, 1, LENGTH])}
    return build.model(inputs, {"out": whole})


def test_a_block_of_an_encoder_is_one_kernel(build: Builder):
    module = import_onnx(block(build)).module
    generator = np.random.default_rng(1)
    shape = (1, LENGTH, HEADS * HEAD)
    inputs = [generator.standard_normal(shape).astype(np.float16) for _ in range(3)]
    inputs.append((np.arange(LENGTH) < 9).astype(np.float16).reshape(1, 1, 1, LENGTH))
    (expected,) = interpret(module, inputs)
    (allowed,) = tolerances(module, "main", inputs, [expected])
    formed = module.clone()
    spec = "linalg-to-contraction,form-attention{target=lavapipe}"
    PassPipeline.parse_spec(Universe.get_multiverse().all_passes, spec).apply(context(), formed)
    (op,) = [each for each in formed.walk() if isinstance(each, AttentionOp)]
    (function,) = formed.ops
    assert isinstance(function, FuncOp)
    # Heads are split and merged by indexing, without kernels that move data.
    assert op.query.type == op.out.type == function.function_type.inputs.data[0]
    assert op.mask is not None
    for each in linalg_to_spirv("lavapipe"):
        each.apply(context(), module)
    (found,) = interpret(module, inputs, subgroup_size=8)
    error = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    assert np.all(error <= allowed)
    assert allowed.max() < 0.2


def scaled_block(build: Builder) -> ModelProto:
    """
    Returns attention in PyTorch's form: queries and keys are both multiplied by the square root of
    the scale.
    """
    shape = build.constant("split", np.array([1, LENGTH, HEADS, 16]))
    root = build.constant("root", np.array(16**-0.25, np.float16))
    for name in "qkv":
        build.node("Reshape", [name, shape], f"{name}_split")
        build.node("Transpose", [f"{name}_split"], f"{name}_heads", perm=[0, 2, 1, 3])
    build.node("Reshape", ["k_heads", build.constant("f", np.array([-1, LENGTH, 16]))], "flat")
    build.node("Transpose", ["flat"], "turned", perm=[0, 2, 1])
    whole = build.constant("w", np.array([1, HEADS, 16, LENGTH]))
    build.node("Reshape", ["turned", whole], "k_turned")
    build.node("Mul", ["q_heads", root], "q_scaled")
    build.node("Mul", ["k_turned", root], "k_scaled")
    build.node("MatMul", ["q_scaled", "k_scaled"], "scores")
    build.node("Softmax", ["scores"], "p", axis=-1)
    build.node("MatMul", ["p", "v_heads"], "mixed")
    build.node("Transpose", ["mixed"], "back", perm=[0, 2, 1, 3])
    build.node("Reshape", ["back", build.constant("m", np.array([1, LENGTH, -1]))], "out")
    type = ("FLOAT16", [1, LENGTH, HEADS * 16])
    return build.model(dict.fromkeys("qkv", type), {"out": type})


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_scales_of_queries_and_keys_are_part_of_the_kernel(build: Builder, target: str):
    imported = import_onnx(scaled_block(build))
    generator = np.random.default_rng(1)
    shape = (1, LENGTH, HEADS * 16)
    inputs = [generator.standard_normal(shape).astype(np.float16) for _ in range(3)]
    (expected,) = interpret(imported.module, inputs)
    (allowed,) = tolerances(imported.module, "main", inputs, [expected])
    program = compile_model(imported, target)
    kernels = [d.kernel.split("_")[0] for d in program.manifest.dispatches]
    assert kernels[-1] == "attention"
    assert set(kernels[:-1]) <= {"pack"}
    found = program(*inputs)
    assert np.all(np.abs(found.astype(np.float64) - expected.astype(np.float64)) <= allowed)
    assert np.median(allowed) < 0.05


def test_keys_that_lie_in_columns_are_packed_for_the_kernel(build: Builder):
    build.node("MatMul", ["q", "k"], "scores")
    build.node("Softmax", ["scores"], "p", axis=-1)
    build.node("MatMul", ["p", "v"], "out")
    rows = ("FLOAT16", [HEADS, 48, 64])
    columns = ("FLOAT16", [HEADS, 64, 48])
    model = build.model({"q": rows, "k": columns, "v": rows}, {"out": rows})
    program = compile_model(import_onnx(model), "nvidia-h200")
    kernels = [d.kernel.split("_")[0] for d in program.manifest.dispatches]
    assert kernels == ["pack", "pack", "pack", "attention"]


@pytest.mark.parametrize("order", ["qkv", "vkq"])
@pytest.mark.parametrize("length", [LENGTH, "tokens"])
def test_queries_keys_and_values_may_be_parts_of_each_head(
    build: Builder, order: str, length: int | str
):
    """The first part of a head is read in place only if the index skips the other parts."""
    rank = np.array([0 if isinstance(length, str) else 2, 0, HEADS, 3 * HEAD])
    build.node("Reshape", ["x", build.constant("heads", rank)], "split")
    axis = build.constant("axis", np.array([3]))
    for number, name in enumerate(order):
        first, end = number * HEAD, (number + 1) * HEAD
        bounds = [build.constant(f"{name}_{n}", np.array([n])) for n in (first, end)]
        build.node("Slice", ["split", *bounds, axis], name)
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        build.node("Transpose", [name], f"{name}_heads", perm=perm)
    build.node("MatMul", ["q_heads", "k_heads"], "scores")
    build.node("Softmax", ["scores"], "p", axis=-1)
    build.node("MatMul", ["p", "v_heads"], "mixed")
    build.node("Transpose", ["mixed"], "back", perm=[0, 2, 1, 3])
    build.node("Reshape", ["back", build.constant("m", np.array([2, -1, HEADS * HEAD]))], "out")
    inputs = {"x": ("FLOAT", [2, length, 3 * HEADS * HEAD])}
    model = build.model(inputs, {"out": ("FLOAT", [2, length, HEADS * HEAD])})
    x = np.random.default_rng(4).standard_normal((2, LENGTH, 3 * HEADS * HEAD)).astype(np.float32)
    parts = dict(zip(order, np.split(x.reshape(2, LENGTH, HEADS, -1), 3, axis=3), strict=True))
    scores = np.einsum("btHd,bsHd->bHts", parts["q"], parts["k"])
    power = np.exp(scores - scores.max(-1, keepdims=True))
    p = power / power.sum(-1, keepdims=True)
    expected = np.einsum("bHts,bsHd->btHd", p, parts["v"]).reshape(2, LENGTH, -1)
    for target in ("lavapipe", "nvidia-h200"):
        dims = {"tokens": None} if isinstance(length, str) else {}
        program = compile_model(import_onnx(model, dims), target)
        assert any("attention" in name for name in program.code)
        found = program(x, device="interpreter")
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
