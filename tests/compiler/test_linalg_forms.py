"""
Winograd transforms, parallel loops, bf16 sums and attributes after operands compile to right
programs.

Covers: graph/winograd.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter import interpret
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import parse_text

WINOGRAD = """
func.func @main(%f: tensor<{k}x{r}x{r}x{c}xf32>, %x: tensor<1x{i}x{i}x{c}xf32>,
    %out: tensor<1x{o}x{o}x{k}xf32>) -> tensor<1x{o}x{o}x{k}xf32> {{
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<{a}x{a}x{c}x{k}xf32>
  %u = linalg.winograd_filter_transform fmr(F_{m}_{r}) ins(%f : tensor<{k}x{r}x{r}x{c}xf32>)
    outs(%e0 : tensor<{a}x{a}x{c}x{k}xf32>) -> tensor<{a}x{a}x{c}x{k}xf32>
  %e1 = tensor.empty() : tensor<{a}x{a}x2x2x1x{c}xf32>
  %v = linalg.winograd_input_transform fmr(F_{m}_{r}) ins(%x : tensor<1x{i}x{i}x{c}xf32>)
    outs(%e1 : tensor<{a}x{a}x2x2x1x{c}xf32>) -> tensor<{a}x{a}x2x2x1x{c}xf32>
  %e2 = tensor.empty() : tensor<{a}x{a}x2x2x1x{k}xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e2 : tensor<{a}x{a}x2x2x1x{k}xf32>)
    -> tensor<{a}x{a}x2x2x1x{k}xf32>
  %p = linalg.contract indexing_maps = [
      affine_map<(a, b, t, u, n, k, c) -> (a, b, t, u, n, c)>,
      affine_map<(a, b, t, u, n, k, c) -> (a, b, c, k)>,
      affine_map<(a, b, t, u, n, k, c) -> (a, b, t, u, n, k)>]
    ins(%v, %u : tensor<{a}x{a}x2x2x1x{c}xf32>, tensor<{a}x{a}x{c}x{k}xf32>)
    outs(%z : tensor<{a}x{a}x2x2x1x{k}xf32>) {{note = "behind"}} -> tensor<{a}x{a}x2x2x1x{k}xf32>
  %y = linalg.winograd_output_transform fmr(F_{m}_{r}) ins(%p : tensor<{a}x{a}x2x2x1x{k}xf32>)
    outs(%out : tensor<1x{o}x{o}x{k}xf32>) -> tensor<1x{o}x{o}x{k}xf32>
  return %y : tensor<1x{o}x{o}x{k}xf32>
}}
"""


@pytest.mark.parametrize(("m", "r"), [(2, 3), (4, 3), (2, 5)])
def test_winograd_is_a_convolution(m: int, r: int):
    sizes = {"m": m, "r": r, "a": m + r - 1, "i": 2 * m + r - 1, "o": 2 * m, "c": 3, "k": 2}
    numbers = np.random.default_rng(m + r)
    f, x, out = (
        numbers.integers(-2, 3, shape).astype(np.float32)
        for shape in ((2, r, r, 3), (1, sizes["i"], sizes["i"], 3), (1, 2 * m, 2 * m, 2))
    )
    windows = np.lib.stride_tricks.sliding_window_view(x, (r, r), (1, 2))
    expected = out + np.einsum("nhwcij,kijc->nhwk", windows, f)
    text = WINOGRAD.format(**sizes)
    np.testing.assert_allclose(interpret(parse_text(text), [f, x, out])[0], expected, atol=1e-3)
    program = compile_module(parse_text(text), "lavapipe")
    (found,) = run(program, {"f": f, "x": x, "out": out}, "interpreter").values()
    np.testing.assert_allclose(found, expected, atol=1e-3)


FORALL = """
func.func @main(%a: tensor<8x6xbf16>, %b: tensor<6x4xbf16>, %c: tensor<8x4xbf16>)
    -> (tensor<8x4xbf16>, tensor<8x4xbf16>) {
  %two = arith.constant 2 : index
  %r:2 = scf.forall (%i, %j) = (0, 0) to (8, 4) step (4, %two) shared_outs(%v = %c, %w = %c)
      -> (tensor<8x4xbf16>, tensor<8x4xbf16>) {
    %s = tensor.extract_slice %a[%i, 0] [4, 6] [1, 1] : tensor<8x6xbf16> to tensor<4x6xbf16>
    %t = tensor.extract_slice %b[0, %j] [6, 2] [1, 1] : tensor<6x4xbf16> to tensor<6x2xbf16>
    %o = tensor.extract_slice %v[%i, %j] [4, 2] [1, 1] : tensor<8x4xbf16> to tensor<4x2xbf16>
    %m = linalg.matmul ins(%s, %t : tensor<4x6xbf16>, tensor<6x2xbf16>)
                       outs(%o : tensor<4x2xbf16>) -> tensor<4x2xbf16>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %m into %v[%i, %j] [4, 2] [1, 1]
        : tensor<4x2xbf16> into tensor<8x4xbf16>
      tensor.parallel_insert_slice %o into %w[%i, %j] [4, 2] [1, 1]
        : tensor<4x2xbf16> into tensor<8x4xbf16>
    }
  }
  return %r#0, %r#1 : tensor<8x4xbf16>, tensor<8x4xbf16>
}
"""


def test_parallel_loops_sum_bf16_in_tiles():
    numbers = np.random.default_rng(1)
    a, b, c = (
        numbers.integers(-2, 3, shape).astype(ml_dtypes.bfloat16)
        for shape in ((8, 6), (6, 4), (8, 4))
    )
    product = a.astype(np.float32) @ b.astype(np.float32) + c.astype(np.float32)
    program = compile_module(parse_text(FORALL), "lavapipe")
    compiled = list(run(program, {"a": a, "b": b, "c": c}, "interpreter").values())
    for results in (interpret(parse_text(FORALL), [a, b, c]), compiled):
        np.testing.assert_array_equal(results[0].astype(np.float32), product)
        np.testing.assert_array_equal(results[1].astype(np.float32), c.astype(np.float32))


SHARED_FILL = """
func.func @main(%a: tensor<16x32xf32>, %b: tensor<32x16xf32>) -> tensor<16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %x = linalg.matmul ins(%a, %b : tensor<16x32xf32>, tensor<32x16xf32>)
    outs(%z : tensor<16x16xf32>) -> tensor<16x16xf32>
  %r = linalg.add ins(%x, %x : tensor<16x16xf32>, tensor<16x16xf32>)
    outs(%z : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %r : tensor<16x16xf32>
}
"""


def test_a_sum_is_not_written_over_the_fill_that_a_product_starts_from():
    numbers = np.random.default_rng(1)
    a, b = (numbers.integers(-3, 4, s).astype(np.float32) for s in ((16, 32), (32, 16)))
    program = compile_module(parse_text(SHARED_FILL), "lavapipe")
    (found,) = run(program, {"a": a, "b": b}, "interpreter").values()
    np.testing.assert_array_equal(found, 2 * (a @ b))


REDUCED = """
func.func @main(%x: tensor<4x?xf32>, %y: tensor<4x?xi32>)
    -> (tensor<4xf32>, tensor<4xi32>, tensor<4xf32>) {
  %z = arith.constant 0.0 : f32
  %n = arith.constant 3 : i32
  %e = bufferization.alloc_tensor() : tensor<4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %i = tensor.empty() : tensor<4xi32>
  %g = linalg.fill ins(%n : i32) outs(%i : tensor<4xi32>) -> tensor<4xi32>
  %own = bufferization.alloc_tensor() copy(%x) : tensor<4x?xf32>
  %a, %b = linalg.reduce ins(%own, %y : tensor<4x?xf32>, tensor<4x?xi32>)
      outs(%f, %g : tensor<4xf32>, tensor<4xi32>) dimensions = [1]
    (%p: f32, %q: i32, %s: f32, %t: i32) {
      %0 = arith.addf %p, %s : f32
      %1 = arith.maxsi %q, %t : i32
      linalg.yield %0, %1 : f32, i32
    }
  %c = linalg.reduce { arith.subf } ins(%x : tensor<4x?xf32>) outs(%f : tensor<4xf32>)
      dimensions = [1]
  return %a, %b, %c : tensor<4xf32>, tensor<4xi32>, tensor<4xf32>
}"""


def test_reductions_by_name_and_of_several_tensors():
    """Reductions give numpy's results. `arith.subf` subtracts from the accumulator."""
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    y = np.arange(-6, 6, dtype=np.int32).reshape(4, 3)
    wanted = x.sum(1), np.maximum(y.max(1), 3), -x.sum(1)
    compiled = run(compile_module(parse_text(REDUCED), "lavapipe"), {"x": x, "y": y}).values()
    for results in (compiled, interpret(parse_text(REDUCED), [x, y])):
        for got, expected in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(got, expected)


DOTTED = """
func.func @main(%x: tensor<5xf32>, %y: tensor<8xf32>) -> f32 {
  %start = arith.constant dense<1.0> : tensor<f32>
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[2] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<5xf32> to tensor<8xf32>
  %d = linalg.dot ins(%p, %y : tensor<8xf32>, tensor<8xf32>) outs(%start : tensor<f32>)
      -> tensor<f32>
  %r = tensor.extract %d[] : tensor<f32>
  return %r : f32
}"""


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_a_dot_product_of_a_padded_vector_is_a_result(target: str):
    x, y = np.arange(5, dtype=np.float32), np.arange(8, dtype=np.float32)[::-1].copy()
    wanted = 1 + np.pad(x, (2, 1)) @ y
    program = compile_module(parse_text(DOTTED), target)
    (got,) = run(program, {"x": x, "y": y}, "interpreter").values()
    np.testing.assert_array_equal(got, wanted)


RANDOM = """
func.func @main(%low: f64, %high: f64, %seed: i32, %room: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %r = linalg.fill_rng_2d ins(%low, %high, %seed : f64, f64, i32) outs(%room : tensor<5x7xf32>)
      -> tensor<5x7xf32>
  return %r : tensor<5x7xf32>
}"""


def test_random_numbers_equal_the_numbers_of_mlir():
    rows, columns = np.mgrid[:5, :7]
    with np.errstate(over="ignore"):
        factor, offset = np.int32(1_103_515_245), np.int32(12_345)
        first = (rows.astype(np.int32) + np.int32(3)) * factor + offset
        drawn = (columns.astype(np.int32) + first) * factor + offset
    scale = (4.0 - -2.0) * 2.3283063999999999e-10
    wanted = ((drawn + 2_147_483_647.0) * scale + -2.0).astype(np.float32)
    assert wanted.min() >= -2
    assert wanted.max() <= 4
    assert len(np.unique(wanted)) == 35
    room = np.zeros((5, 7), np.float32)
    given = {"low": np.array(-2.0), "high": np.array(4.0), "seed": np.array(3, np.int32)}
    program = compile_module(parse_text(RANDOM), "lavapipe")
    compiled = run(program, given | {"room": room}).values()
    for (got,) in (compiled, interpret(parse_text(RANDOM), [*given.values(), room])):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", ["input", "output"])
def test_winograd_of_open_sizes_is_valid_and_refused_by_name(name: str):
    types = "tensor<?x?x?x?xf32>", "tensor<6x6x?x?x?x?xf32>"
    source, out = types if name == "input" else types[::-1]
    text = f"""
    func.func @main(%x: {source}, %e: {out}) -> {out} {{
      %r = linalg.winograd_{name}_transform fmr(F_4_3) ins(%x : {source}) outs(%e : {out}) -> {out}
      return %r : {out}
    }}"""
    with pytest.raises(ProgramError, match=f"'linalg.winograd_{name}_transform'.*static sizes"):
        compile_module(parse_text(text), "lavapipe")
