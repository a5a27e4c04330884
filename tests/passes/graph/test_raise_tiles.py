"""
Tile programs become functions on tensors with equal results, or stay unchanged.

Covers: graph/online_softmax, graph/tile_elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv import kernels as k
from xdsl_spirv import parse
from xdsl_spirv.compiler import compile
from xdsl_spirv.interpreter import interpret
from xdsl_spirv.kernels import tiles as t
from xdsl_spirv.kernels.tile_launch import RaisedProgram, lower_program
from xdsl_spirv.passes.graph.raise_tiles import raise_program
from xdsl_spirv.passes.graph.tile_nodes import NotRaised
from xdsl_spirv.runtime.elements import Array

G = np.random.default_rng(5)


def floats(*shape: int, dtype: DTypeLike = np.float16) -> Array:
    return G.standard_normal(shape).astype(dtype)


Case = tuple[t.TileKernel, list[Any]]


def batches() -> Case:
    """Returns a batch of products. B is read as rows along K, and scaled before the product."""

    @t.kernel
    def kernel(
        a: t.View = t.view(k.f16, None, None, None),
        b: t.View = t.view(k.f16, None, None),
        s: t.View = t.view(k.f32, None),
        c: t.View = t.view(k.f32, None, None, None),
    ):
        n, i, j = t.place(c, 1, 16, 8, axes=(0, 1, 2))
        total = t.variable(t.zeros(k.f32, 16, 8))
        for at in t.range(0, a.size(2), 8):
            y = (b.load(j, at, 8, 8).to(k.f32) * s.load(at, 8).row).to(k.f16)
            total.value = t.multiply_add(a.load(n, i, at, 16, 8), y.T, total.value)
        c.store(n, i, j, t.exp(total.value * 0.1).reshape(16, 8))

    return kernel, [floats(3, 20, 12), floats(10, 12), floats(12, dtype=np.float32), (3, 20, 10)]


def gates() -> Case:
    """Returns two products of one operand in a loop. One accumulator starts as a bias."""

    @t.kernel
    def kernel(
        a: t.View = t.view(k.bf16, None, None),
        b: t.View = t.view(k.bf16, None, None),
        g: t.View = t.view(k.bf16, None, None),
        r: t.View = t.view(k.f32, None),
        c: t.View = t.view(k.f32, None, None),
    ):
        i, j = t.place(c, 8, 16, group=2)
        up = t.variable(r.load(j, 16).row.broadcast((8, 16)))
        gate = t.variable(t.zeros(k.f32, 8, 16))
        for at in t.range(0, a.size(1), 8):
            x = a.load(i, at, 8, 8)
            up.value = t.multiply_add(x, b.load(at, j, 8, 16), up.value)
            gate.value = t.multiply_add(x, g.load(at, j, 8, 16), gate.value)
        c.store(i, j, up.value * t.tanh(gate.value))

    a, b, g = (floats(*s, dtype=ml_dtypes.bfloat16) for s in ((17, 11), (11, 18), (11, 18)))
    return kernel, [a, b, g, floats(18, dtype=np.float32), (17, 18)]


def rows() -> Case:
    """Returns an integer product without a loop, minus the maximum of each row."""

    @t.kernel
    def kernel(
        a: t.View = t.view(k.u8, None, 12),
        b: t.View = t.view(k.u8, 12, 8),
        c: t.View = t.view(k.f32, None, 8),
    ):
        i = t.place(c, 16, axes=(0,))
        x = t.multiply_add(a.load(i, 0, 16, 12), b.load(0, 0, 12, 8), t.zeros(k.u32, 16, 8))
        y = x.to(k.f32)
        c.store(i, 0, y - y.max(axis=1).column)

    a, b = (G.integers(0, 256, s).astype(np.uint8) for s in ((20, 12), (12, 8)))
    return kernel, [a, b, (20, 8)]


def few_rows() -> Case:
    @t.kernel
    def kernel(
        a: t.View = t.view(k.f32, None, None),
        b: t.View = t.view(k.f32, None, None),
        c: t.View = t.view(k.f32, None, None),
    ):
        j = t.place(c, 8, axes=(1,))
        total = t.variable(t.zeros(k.f32, 16, 8))
        for at in t.range(0, a.size(1), 8):
            y = b.load(at, j, 8, 8)
            total.value = t.multiply_add(a.load(0, at, 16, 8), y, total.value)
        c.store(0, j, total.value)

    a, b = (floats(*shape, dtype=np.float32) for shape in ((10, 24), (24, 20)))
    return kernel, [a, b, (10, 20)]


def squares(size: int, turned: bool) -> Case:
    """Returns each tile times itself, or times its transpose."""

    @t.kernel
    def kernel(x: t.View = t.view(k.f32, None, None), y: t.View = t.view(k.f32, None, None)):
        i, j = t.place(y, 8, 8)
        z = x.load(i, j, 8, 8)
        y.store(i, j, t.multiply_add(z, z.T if turned else z, t.zeros(k.f32, 8, 8)))

    return kernel, [floats(size, size, dtype=np.float32), (size, size)]


def attention(
    keys: int,
    masked: Callable[..., Any] | None = None,
    end: Callable[[Any, Any], Any] = lambda row, n: n,
    power: Any = t.exp2,
    late: float = 0.0,
    finish: Callable[..., Any] = lambda result, total, top: result / total.column,
    first: tuple[float, float] = (-t.inf, 0.0),
) -> Case:
    """
    Returns an attention of 2 heads over `keys` keys.

    The other arguments are the parts in which its formula can differ. `late` scales scores after
    their maximum is subtracted, `first` are the initial maximum and sum.
    """

    @t.kernel
    def kernel(
        q: t.View = t.view(k.f16, None, None, 16),
        kk: t.View = t.view(k.f16, None, None, 16),
        v: t.View = t.view(k.f16, None, None, 24),
        o: t.View = t.view(k.f32, None, None, 24),
    ):
        row, head = t.place(o, 8, axes=(1, 0))
        x = q.load(head, row, 0, 8, 16) if late else q.load(head, row, 0, 8, 16) * 0.25
        top, total = (t.variable(t.full(number, k.f32, 8)) for number in first)
        result = t.variable(t.zeros(k.f32, 8, 24))
        for at in t.range(0, end(row, kk.size(1)), 16):
            s = t.multiply_add(x, kk.load(head, at, 0, 16, 16).T, t.zeros(k.f32, 8, 16))
            if masked is not None:
                i, j = t.places(s)
                s = t.where(masked(row + i, at + j, kk.size(1)), s, -t.inf)
            greatest = s.max(axis=1)
            if late:
                greatest, s = greatest * late, s * late
            new = t.maximum(top.value, greatest)
            lost, p = power(top.value - new), power(s - new.column)
            total.value = total.value * lost + p.sum(axis=1)
            w = v.load(head, at, 0, 16, 24)
            result.value = t.multiply_add(p.to(k.f16), w, result.value * lost.column)
            top.value = new
        o.store(head, row, 0, finish(result.value, total.value, top.value))

    return kernel, [floats(2, 20, 16), floats(2, keys, 16), floats(2, keys, 24), (2, 20, 24)]


def causal(i: Any, j: Any, n: Any) -> Any:
    return (j < n) & (j <= i + 3)


def clamp_scores(least: int) -> Callable[[Any, Any], Any]:
    return lambda row, n: t.clamp(row + least, 0, n)


RAISED: dict[str, Callable[[], Case]] = {
    "batches": batches,
    "gates": gates,
    "rows": rows,
    "few rows": few_rows,
    "attention": lambda: attention(32),
    "keys behind the last are hidden": lambda: attention(29, lambda i, j, n: j < n, power=t.exp),
    "a factor of both": lambda: attention(32, late=0.25),
    "a sum that begins with 1": lambda: attention(32, first=(-t.inf, 1.0)),
    "a loop that ends behind the diagonal": lambda: attention(29, causal, clamp_scores(8 + 3)),
}
STAY: dict[str, tuple[Callable[[], Case], str]] = {
    "keys behind the last are seen": (lambda: attention(29), "does not mask keys"),
    "a loop that ends before": (
        lambda: attention(29, causal, clamp_scores(8 + 2)),
        "skips keys",
    ),
    "a mask that hides none": (
        lambda: attention(32, lambda i, j, n: j < n, clamp_scores(8 + 3)),
        "skips keys",
    ),
    "the sum is read": (
        lambda: attention(32, finish=lambda result, total, top: result + total.column),
        "is used outside of the division",
    ),
    "a maximum that begins with 0": (
        lambda: attention(32, first=(0.0, 1.0)),
        "do not start from",
    ),
    "a product of parts": (lambda: squares(16, turned=False), "part|dimension"),
    "a product of parts with their transpose": (
        lambda: squares(16, turned=True),
        "two axes|tiled dimensions",
    ),
    "a square, whose rows and columns would be one": (
        lambda: squares(8, turned=False),
        "two axes of a tile index the same|two different tiled dimensions",
    ),
    "a factor below 0": (lambda: attention(32, late=-0.25), "another factor"),
}


def arrays(given: list[Any]) -> list[Array]:
    return [np.zeros(v, np.float32) if isinstance(v, tuple) else v for v in given]


def raise_kernel(kernel: t.TileKernel, given: list[Array]) -> ModuleOp:
    shapes = dict(zip(kernel.parameters, (v.shape for v in given), strict=True))
    return ModuleOp([raise_program(kernel.trace(shapes).program)])


@pytest.mark.parametrize("name", RAISED)
def test_the_function_computes_what_whole_tiles_do(name: str):
    kernel, given = RAISED[name]()
    given = arrays(given)
    *_, whole = kernel.launch(*given).buffers.values()
    module = raise_kernel(kernel, given)
    module.verify()
    (result,) = interpret(module, given[:-1], "kernel")
    assert np.abs(result.astype(np.float64) - whole).max() <= 0.01


@pytest.mark.parametrize("name", STAY)
def test_a_program_without_such_a_function_is_refused(name: str):
    make, said = STAY[name]
    kernel, given = make()
    with pytest.raises(NotRaised, match=said):
        raise_kernel(kernel, arrays(given))


MATMUL = """
func.func @main(%a: tensor<64x48xf16>, %b: tensor<48x80xf16>) -> tensor<64x80xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x80xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<64x80xf32>) -> tensor<64x80xf32>
  %r = linalg.matmul ins(%a, %b : tensor<64x48xf16>, tensor<48x80xf16>)
                     outs(%f : tensor<64x80xf32>) -> tensor<64x80xf32>
  return %r : tensor<64x80xf32>
}
"""


def test_a_raised_product_has_the_kernel_of_the_same_product_in_a_model():
    @t.kernel
    def product(
        a: t.View = t.view(k.f16, None, None),
        b: t.View = t.view(k.f16, None, None),
        c: t.View = t.view(k.f32, None, None),
    ):
        i, j = t.place(c, 32, 16)
        total = t.variable(t.zeros(k.f32, 32, 16))
        for at in t.range(0, a.size(1), 16):
            x, y = a.load(i, at, 32, 16), b.load(at, j, 16, 16)
            total.value = t.multiply_add(x, y, total.value)
        c.store(i, j, total.value)

    shapes = {"a": (64, 48), "b": (48, 80), "c": (64, 80)}
    over_tiles = lower_program(product.trace(shapes), "nvidia-h200")
    assert isinstance(over_tiles, RaisedProgram)
    programs = over_tiles.compiled, compile(parse(MATMUL), "nvidia-h200")
    own, built_in = (program.code.values() for program in programs)
    assert [code.binary for code in own] == [code.binary for code in built_in]
