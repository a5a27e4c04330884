# ruff: noqa: E501 a function of the table is a line
"""JAX functions and StableHLO give JAX's own results."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import xdsl_spirv as xs
from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends import FrontendError, import_stablehlo
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError

Case = tuple[Callable[..., Any], tuple[Any, ...]]


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    for needed in ("jax", "flax"):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed (pip install '.[jax]' flax)")
    return import_module("jax")


def floats(*sizes: int) -> Array:
    return np.random.default_rng(len(sizes) + sum(sizes)).standard_normal(sizes, np.float32)


def numpy_functions(jax: ModuleType) -> dict[str, Case]:
    """Returns functions of jax.numpy."""
    jnp, x = jax.numpy, floats(6, 8)
    square, ints = floats(5, 5), np.arange(24, dtype=np.int32).reshape(4, 6) - 7
    return {
        "matmul": (jnp.matmul, (floats(2, 3, 4), floats(2, 4, 5))),
        "einsum": (lambda a, b: jnp.einsum("bij,bkj->bik", a, b), (floats(2, 3, 4), floats(2, 5, 4))),
        "tensordot": (lambda a, b: jnp.tensordot(a, b, 2), (floats(3, 4, 5), floats(4, 5, 2))),
        "variance": (lambda x: (jnp.mean(x, 0), jnp.var(x, 1), jnp.std(x)), (x,)),
        "argmax": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), (x,)),
        "sort": (lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0)), (x,)),
        "cumulative": (lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 0)), (x,)),
        "where": (lambda x: jnp.where(x > 0, x, jnp.exp(x) - 1), (x,)),
        "take": (lambda x, i: jnp.take(x, i, axis=0), (x, np.array([3, 0, 5, -1], np.int32))),
        "take_along_axis": (lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1), (x,)),
        "index": (lambda x, i: (x[i], x[:, 2], x[1:5:2, ::-1]), (x, np.array(4, np.int32))),
        "at_set": (lambda x, i: x.at[i].set(1.0).at[:, 2].multiply(3.0), (x, np.array(2, np.int32))),
        "at_add": (lambda x, i: x.at[i].add(x[:3]), (x, np.array([1, 4, 1], np.int32))),
        "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 3)), constant_values=2.0), (x,)),
        "pad_reflect": (lambda x: jnp.pad(x, ((2, 1), (1, 2)), mode="reflect"), (x,)),
        "concatenate": (lambda x: jnp.concatenate([x, x[:2] * 2], 0), (x,)),
        "split": (lambda x: jnp.split(x, [2, 5], axis=1), (x,)),
        "roll": (lambda x: jnp.roll(x, (1, -2), (0, 1)), (x,)),
        "tile": (lambda x: jnp.repeat(jnp.tile(x, (1, 2)), 2, axis=0), (x,)),
        "triangles": (lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.trace(x)), (square,)),
        "transpose": (lambda x: jnp.moveaxis(jnp.swapaxes(x, 0, 1), 0, 2), (floats(2, 3, 4),)),
        "outer": (lambda x, y: jnp.outer(x, y) + jnp.eye(6, 8), (floats(6), floats(8))),
        "trigonometry": (lambda x: (jnp.sin(x), jnp.arctan2(x, x + 1), jnp.tanh(x), jnp.sinh(x)), (x,)),
        "logarithms": (lambda x: (jnp.log1p(x * x), jnp.expm1(x), jnp.log2(x * x + 1)), (x,)),
        "rounding": (lambda x: (jnp.round(x), jnp.floor(x), jnp.sign(x), jnp.trunc(x * 3)), (x,)),
        "powers": (lambda x: (jnp.power(jnp.abs(x), 1.5), x**3, jnp.cbrt(x), jnp.hypot(x, x)), (x,)),
        "integers": (lambda i: (i // 3, i % 5, i << 2, i >> 1, i & 6, ~i, abs(i)), (ints,)),
        "division": (lambda i: (jnp.divmod(i, -3), jnp.fmod(i, 4), jnp.remainder(i * 1.5, 2.0)), (ints,)),
        "median": (lambda x: (jnp.median(x, 1), jnp.percentile(x, 30.0, axis=0)), (x,)),
        "norms": (lambda x: (jnp.linalg.norm(x, axis=1), jnp.linalg.norm(x)), (x,)),
        "any_all": (lambda x: (jnp.any(x > 1, 1), jnp.all(x > -2, 0), jnp.count_nonzero(x > 0)), (x,)),
        "searchsorted": (lambda x, v: jnp.searchsorted(x, v), (np.sort(floats(9)), floats(5))),
        "interp": (lambda x: jnp.interp(x, jnp.arange(5.0), jnp.arange(5.0) ** 2), (floats(7),)),
        "clip_nan": (lambda x: jnp.nan_to_num(jnp.clip(jnp.sqrt(x), 0.1, 1.0)), (x,)),
        "meshgrid": (lambda x, y: jnp.meshgrid(x, y)[0] * y[:, None], (floats(3), floats(4))),
        "vander_poly": (lambda x: jnp.polyval(jnp.array([1.0, -2.0, 3.0]), x), (x,)),
        "bincount": (lambda i: jnp.bincount(i, length=6), (np.array([1, 2, 1, 5, 0, 1], np.int32),)),
        "convolve": (lambda x, k: jnp.convolve(x, k, mode="same"), (floats(12), floats(3))),
    }  # fmt: skip


def lax_functions(jax: ModuleType) -> dict[str, Case]:
    """Returns functions of lax, loops, and jax.random."""
    jnp, lax, x = jax.numpy, jax.lax, floats(6, 8)

    def newton(x: Any) -> Any:
        def is_going(state: Any) -> Any:
            count, root = state
            return (count < 20) & jnp.any(jnp.abs(root * root - x) > 1e-5)

        return lax.while_loop(
            is_going, lambda state: (state[0] + 1, (state[1] + x / state[1]) / 2), (0, x)
        )[1]

    def recurrence(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            carry = jnp.tanh(carry * 0.5 + row)
            return carry, carry.sum()

        return lax.scan(step, jnp.zeros(8), x)

    def choice(x: Any, i: Any) -> Any:
        return lax.switch(i, [jnp.sin, jnp.cos, lambda x: -x], x), lax.cond(i > 1, jnp.exp, abs, x)

    conv = lax.conv_general_dilated
    image, kernel = floats(2, 9, 8, 4), floats(3, 3, 4, 6)
    names = ("NHWC", "HWIO", "NHWC")
    return {
        "fori_loop": (lambda x: lax.fori_loop(0, 12, lambda i, c: c * 0.9 + x[i % 6], x[0]), (x,)),
        "loop_division": (lambda x: lax.fori_loop(0, 9, lambda i, c: c + x[0, :2] * (i % jnp.array([2, 3])) + i // 2, x[1, :2]), (x,)),
        "scan": (recurrence, (x,)),
        "while_loop": (newton, (abs(x) + 0.5,)),
        "cond_switch": (choice, (x, np.array(2, np.int32))),
        "conv": (lambda x, k: conv(x, k, (2, 1), "SAME", dimension_numbers=names), (image, kernel)),
        "conv_dilated": (lambda x, k: conv(x, k, (1, 1), "VALID", rhs_dilation=(2, 2), dimension_numbers=names), (image, kernel)),
        "conv_groups": (lambda x, k: conv(x, k, (1, 1), "SAME", dimension_numbers=names, feature_group_count=2), (image, floats(3, 3, 2, 6))),
        "conv_depthwise": (lambda x, k: conv(x, k, (1, 1), "SAME", dimension_numbers=names, feature_group_count=4), (image, floats(3, 3, 1, 4))),
        "conv_batch_groups": (lambda x, k: conv(x, k, (1, 1), "SAME", dimension_numbers=names, batch_group_count=2), (image, floats(3, 3, 4, 6))),
        "conv_gradients": (jax.grad(lambda x, k: (conv(x, k, (2, 1), "SAME", dimension_numbers=names, feature_group_count=2) ** 2).sum(), (0, 1)), (image, floats(3, 3, 2, 6))),
        "max_pool_gradient": (jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), "SAME") ** 2).sum()), (np.round(image),)),
        "conv_transpose": (lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=names), (image, kernel)),
        "reduce_window": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), (image,)),
        "top_k": (lambda x: lax.top_k(x, 3), (x,)),
        "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 1), (3, 4)), (x, np.array(5, np.int32))),
        "dynamic_update_slice": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)), (x, floats(2, 3), np.array(2, np.int32))),
        "associative_scan": (lambda x: lax.associative_scan(jnp.maximum, x, axis=1), (x,)),
        "sort_pairs": (lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), (np.round(x), floats(6, 8) * 2)),
        "random": (lambda key: (jax.random.uniform(key, (4, 3)), jax.random.normal(key, (7,))), (np.array([3, 9], np.uint32),)),
        "random_categorical": (lambda key, x: jax.random.categorical(key, x), (np.array([1, 2], np.uint32), x)),
        "narrow": (lambda x: (x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16)).astype(jnp.float32), (x,)),
        "narrow_constants": (lambda x: (x.astype(jnp.bfloat16) * 3, jnp.arange(8, dtype=jnp.bfloat16) / 4, jnp.array([1.5, -2e-9, jnp.inf], jnp.bfloat16)), (x,)),
        "float8": (lambda x: ((x.astype(jnp.float8_e4m3fn) + 1).astype(jnp.float32), (x * 3e4).astype(jnp.float8_e5m2).astype(jnp.float32), lax.dot(x.astype(jnp.float8_e4m3fn), x.T.astype(jnp.float8_e4m3fn), preferred_element_type=jnp.float32)), (x,)),
        "precision": (lambda x: (lax.reduce_precision(x * 3e4, 5, 2), lax.reduce_precision(x, 8, 7), lax.reduce_precision(x / 0, 3, 1), lax.reduce_precision(x - jnp.nan, 4, 0)), (x,)),
        "bit_parts": (lambda x: (x.view(jnp.uint8), x.view(jnp.int16), lax.bitcast_convert_type(x.view(jnp.uint8).reshape(6, 8, 4), jnp.float32)), (x,)),
        "int4": (lambda x: -(x * 4).astype(jnp.int4).astype(jnp.int8), (x,)),
        "bits": (lambda x: lax.bitcast_convert_type(x, jnp.int32) ^ lax.population_count(jnp.array(77, np.int32)), (x,)),
        "leading_zeros": (lambda i, j, k: (lax.clz(i), lax.clz(j), lax.clz(k)), (np.array([0, 1, -1, 77, 1 << 30], np.int32), np.array([0, 1, 255, 6], np.uint8), np.array([3, 1 << 15], np.uint16))),
        "special": (lambda x: (jax.scipy.special.erf(x), jax.scipy.special.logsumexp(x, 1), jax.scipy.special.gammaln(abs(x) + 1), lax.erf_inv(jnp.tanh(x))), (x,)),
    }  # fmt: skip


def network_functions(jax: ModuleType) -> dict[str, Case]:
    """Returns functions of jax.nn, gradients, and modules of flax."""
    jnp, nn, linen, x = jax.numpy, jax.nn, import_module("flax.linen"), floats(6, 8)

    class Block(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            y = linen.SelfAttention(num_heads=2)(linen.LayerNorm()(x))
            return x + linen.Dense(8)(linen.gelu(linen.Dense(16)(y)))

    class Network(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            x = linen.relu(linen.GroupNorm(2)(linen.Conv(8, (3, 3), strides=2)(x)))
            x = linen.max_pool(x, (2, 2), (2, 2))
            return linen.Dense(5)(linen.avg_pool(x, (2, 2)).reshape(x.shape[0], -1))

    class Recurrent(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            return linen.RNN(linen.LSTMCell(6))(linen.Embed(10, 4)(x))

    def apply(module: Any, x: Any) -> Case:
        parameters = module.init(jax.random.key(0), x)
        return (lambda x: module.apply(parameters, x)), (x,)

    def training_step(module: Any, x: Any) -> Case:
        parameters = module.init(jax.random.key(0), x)
        return jax.grad(lambda p, x: (module.apply(p, x) ** 2).sum()), (parameters, x)

    def loss(w: Any, x: Any) -> Any:
        return jnp.mean((nn.relu(x @ w) - 1) ** 2)

    heads = floats(2, 6, 2, 4)
    return {
        "activations": (lambda x: (nn.silu(x), nn.elu(x), nn.softplus(x), nn.gelu(x), nn.relu6(x)), (x,)),
        "softmax": (lambda x: (nn.softmax(x), nn.log_softmax(x, 0)), (x,)),
        "one_hot": (lambda i: nn.one_hot(i, 5), (np.array([1, 4, 0], np.int32),)),
        "attention": (lambda q: nn.dot_product_attention(q, q, q, is_causal=True), (heads,)),
        "gradient": (jax.grad(loss), (floats(8, 3), x)),
        "training_step": training_step(Network(), floats(2, 16, 16, 3)),
        "vmap": (jax.vmap(lambda x, i: x[i] * jnp.cumsum(x)), (x, np.array([0, 7, 2, 3, 1, 4], np.int32))),
        "transformer_block": apply(Block(), floats(2, 6, 8)),
        "convolutional_network": apply(Network(), floats(2, 16, 16, 3)),
        "recurrent_network": apply(Recurrent(), np.array([[1, 5, 9, 2, 0, 3, 3]], np.int32)),
        "one_layer": apply(linen.Dense(7), x),
    }  # fmt: skip


FEW = (
    *("sort", "at_add", "while_loop", "conv_transpose", "narrow_constants", "leading_zeros"),
    *(
        "conv_batch_groups",
        "max_pool_gradient",
        "float8",
        "precision",
        "bit_parts",
        "loop_division",
    ),
)
"""Functions that `make test` runs. `make test-long` runs all, also as kernels."""


def check(jax: ModuleType, case: Case, kernels: bool) -> None:
    function, examples = case
    examples = jax.tree.map(jax.numpy.asarray, examples)
    expected = [np.asarray(leaf) for leaf in jax.tree.leaves(function(*examples))]
    inputs = {f"arg{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(examples))}
    results = list(run_reference(xs.from_jax(function, *examples), inputs).values())
    compare(results, expected)
    if kernels:
        program = xs.compile(xs.from_jax(function, *examples), "lavapipe")
        results = program(**inputs, device="interpreter")
        compare(results if isinstance(results, tuple) else [results], expected)


def compare(results: Any, expected: list[Any]) -> None:
    for result, truth in zip(results, expected, strict=True):
        assert (result.dtype, result.shape) == (truth.dtype, truth.shape)
        np.testing.assert_allclose(result, truth, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", FEW)
def test_some_functions_give_the_results_of_jax(jax: ModuleType, name: str):
    check(jax, {**numpy_functions(jax), **lax_functions(jax)}[name], kernels=False)


@pytest.mark.long
def test_all_functions_give_the_results_of_jax(jax: ModuleType):
    wrong: dict[str, str] = {}
    every = {**numpy_functions(jax), **lax_functions(jax), **network_functions(jax)}
    for name, case in every.items():
        try:
            check(jax, case, kernels=True)
        except Exception as error:
            wrong[name] = str(error)
    assert wrong == {}
    assert len(every) >= 77


DOT = """
module @jit_f {
  func.func public @main(%arg0: tensor<8x3xui8>, %arg1: tensor<4x8xui8>) -> (tensor<4x3xui8>) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0]
      : (tensor<4x8xui8>, tensor<8x3xui8>) -> tensor<4x3xui8>
    return %0 : tensor<4x3xui8>
  }
}
"""


def test_stablehlo_keeps_signs_and_weights_apart(jax: ModuleType, tmp_path: Path):
    weights = np.arange(24, dtype=np.uint8).reshape(8, 3)
    model = import_stablehlo(DOT, [weights])
    assert [str(value) for value in model.inputs] == ["arg1: 4x8xui8"]
    x = np.arange(32, dtype=np.uint8).reshape(4, 8)
    compare(run_reference(model, {"arg1": x}).values(), [x @ weights])
    file = tmp_path / "dot.mlir"
    file.write_text(DOT)
    np.testing.assert_array_equal(
        xs.compile(file, "lavapipe")(weights, x, device="interpreter"), x @ weights
    )


def symbolic_functions(
    jax: ModuleType,
) -> dict[str, tuple[Callable[..., Any], list[str], list[str]]]:
    """Returns functions of arrays with symbolic sizes, the arrays' shapes, and constraints."""
    jnp, lax, nn = jax.numpy, jax.lax, jax.nn

    def attention(q: Any, k: Any) -> Any:
        scores = jnp.einsum("bsd,btd->bst", q, k)
        seen = jnp.arange(q.shape[1])[:, None] >= jnp.arange(k.shape[1])
        return nn.softmax(jnp.where(seen, scores, -1e9)) @ k

    def chunks(x: Any) -> Any:
        return x.reshape(x.shape[0], x.shape[1] // 4, 4).mean(2), x[:, 1:] - x[:, :-1], x[:, ::2]

    def image(x: Any) -> Any:
        dims = ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(x, floats(3, 3, 2, 4), (2, 1), "VALID", dimension_numbers=dims)
        return lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 1, 2, 1), "VALID")

    def scan(x: Any) -> Any:
        return lax.scan(lambda c, row: (c + row, c.sum()), jnp.zeros(x.shape[0]), x.T)

    def read_and_add(x: Any, i: Any) -> Any:
        i = i.astype(jnp.int32)
        return x[i], x.at[i].add(1.0), jnp.concatenate([x, x[:1]]), jnp.sort(x, 0)

    return {
        "attention": (attention, ["b, s, 4", "b, t, 4"], []),
        "chunks": (chunks, ["b, s"], ["mod(s, 4) == 0"]),
        "halves": (lambda x: jnp.split(x, 2, 1), ["b, 2*s"], []),
        "image": (image, ["b, 2*s, t, 2"], ["s >= 3", "t >= 4"]),
        "scan": (scan, ["b, 6"], []),
        "cumulative": (lambda x: (jnp.cumsum(x, 1), lax.cummax(x, axis=0, reverse=True)), ["b, s"], []),
        "indexed": (read_and_add, ["s, 3", "t"], []),
        "gradient": (jax.grad(lambda x: (nn.softmax(x) ** 2).mean()), ["b, 5"], []),
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        *("attention", "chunks", "indexed", "cumulative"),
        *(pytest.param(n, marks=pytest.mark.long) for n in ("halves", "image", "scan", "gradient")),
    ],
)
def test_sizes_may_be_symbolic(jax: ModuleType, name: str):
    function, texts, constraints = symbolic_functions(jax)[name]
    export = import_module("jax.export")
    scope = export.SymbolicScope(constraints)
    shapes = [export.symbolic_shape(text, scope=scope) for text in texts]
    examples = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    model = xs.from_jax(function, *examples)
    for b, s, t in ((1, 4, 5), (3, 8, 9)):
        known = {"b": b, "s": s, "t": t}
        sizes = [[eval(part, known) for part in text.split(",")] for text in texts]
        inputs = {f"arg{i}": abs(floats(*shape)) for i, shape in enumerate(sizes)}
        expected = jax.tree.leaves(function(*map(jax.numpy.asarray, inputs.values())))
        results = run_reference(model, inputs).values()
        compare(results, [np.asarray(leaf) for leaf in expected])


def test_kernels_of_symbolic_sizes_check_the_inputs(jax: ModuleType):
    export = import_module("jax.export")
    scope = export.SymbolicScope(["b >= 2"])
    (size,) = export.symbolic_shape("b", scope=scope)
    shape = jax.ShapeDtypeStruct((size, 3), np.float32)
    program = xs.compile(xs.from_jax(lambda x, y: x + y, shape, shape), "lavapipe")
    x = floats(5, 3)
    np.testing.assert_array_equal(program(x, x, device="interpreter"), x + x)
    with pytest.raises(ProgramError, match="must both be b, but they are 5 and 4"):
        program(x, x[:4], device="interpreter")
    with pytest.raises(ProgramError, match="they must be equal"):
        program(x[:1], x[:1], device="interpreter")


SELECT = """
func.func public @main(%x: tensor<5xf32>, %y: tensor<3xf32>) -> tensor<5xf32> {
  %zero = stablehlo.constant dense<0.5> : tensor<f32>
  %r = "stablehlo.select_and_scatter"(%x, %y, %zero) <{
    padding = dense<[[1, 1]]> : tensor<1x2xi64>, window_dimensions = array<i64: 3>,
    window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<5xf32>, tensor<3xf32>, tensor<f32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}
"""


def test_padding_is_never_selected(jax: ModuleType):
    """Windows cover places -1 to 1, 1 to 3, 3 to 5 of the operand; the padding is 0."""
    x, y = np.array([-3, -2, -5, -1, -1], np.float32), np.array([1, 2, 4], np.float32)
    results = run_reference(import_stablehlo(SELECT), {"arg0": x, "arg1": y}).values()
    compare(results, [np.array([0.5, 1.5, 0.5, 6.5, 0.5], np.float32)])


SCATTER = """
func.func public @main(%x: tensor<4xf32>, %y: tensor<4xi32>, %i: tensor<2x1xi32>,
    %u: tensor<2xf32>, %v: tensor<2xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %r:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{scatter_dimension_numbers =
    #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
    index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
    %s = stablehlo.add %a, %c : tensor<f32>
    stablehlo.return %s, %d : tensor<f32>, tensor<i32>
  }) : (tensor<4xf32>, tensor<4xi32>, tensor<2x1xi32>, tensor<2xf32>, tensor<2xi32>)
    -> (tensor<4xf32>, tensor<4xi32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xi32>
}
"""


def test_a_scatter_writes_several_tensors(jax: ModuleType):
    x, y = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.int32)
    at, more = np.array([[3], [1]], np.int32), np.array([10, 20], np.float32)
    inputs = {"arg0": x, "arg1": y, "arg2": at, "arg3": more, "arg4": -y[2:]}
    results = run_reference(import_stablehlo(SCATTER), inputs).values()
    compare(results, [np.array([0, 21, 2, 13], np.float32), np.array([0, -3, 2, -2], np.int32)])


def test_stablehlo_that_is_refused(jax: ModuleType):
    with pytest.raises(FrontendError, match="jaxlib cannot read the module"):
        import_stablehlo("func.func @main() { stablehlo.nothing }")
    with pytest.raises(FrontendError, match="has the shape"):
        import_stablehlo(DOT, [np.zeros((3, 3), np.uint8)])
    with pytest.raises(
        FrontendError, match="no constant limits the number of iterations"
    ) as caught:
        xs.from_jax(lambda x: jax.lax.while_loop(lambda x: x < 5, lambda x: x * 2, x), 1.0)
    assert caught.value.place.startswith("test_jax.py:")
    with pytest.raises(FrontendError, match="elements of the type complex<f32> are not supported"):
        xs.from_jax(jax.numpy.fft.fft, floats(8))
    with pytest.raises(FrontendError, match="the external function"):
        xs.from_jax(jax.numpy.linalg.inv, floats(3, 3))
    with pytest.raises(FrontendError, match="JAX cannot lower the function"):
        xs.from_jax(lambda x: x @ x, floats(2, 3))


def test_weights_that_a_function_closes_over_are_shared(jax: ModuleType):
    weights = jax.numpy.asarray(floats(32, 16))
    exported = jax.export.export(jax.jit(lambda w, x: x @ w))(weights, floats(4, 32))
    model = xs.from_jax(lambda x: x @ weights, floats(4, 32))
    (given,) = model.weights.values()
    assert np.shares_memory(given, np.asarray(weights))
    assert [str(value) for value in model.inputs] == ["arg0: 4x32xf32"]
    truth = floats(4, 32) @ floats(32, 16)
    compare(run_reference(model, {"arg0": floats(4, 32)}).values(), [truth])
    model = import_stablehlo(exported.mlir_module_serialized, [weights])
    compare(run_reference(model, {"arg1": floats(4, 32)}).values(), [truth])
