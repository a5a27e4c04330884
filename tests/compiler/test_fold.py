"""Values that are known at compile time are folded without changing results."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.compiler.compiler import pipeline_of
from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.signature import argument_name
from xdsl_spirv.compiler.weights import give_weights, weights_of
from xdsl_spirv.interpreter import reference
from xdsl_spirv.runtime.modules import context, parse_text

TRANSPOSED = """
func.func @main(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x3xf32>) outs(%e : tensor<3x4xf32>) permutation = [1, 0]
  %zero = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<2x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<2x4xf32>) -> tensor<2x4xf32>
  %r = linalg.matmul ins(%x, %t : tensor<2x3xf32>, tensor<3x4xf32>)
                     outs(%f : tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %r : tensor<2x4xf32>
}
"""

SLICES = """
func.func @main(%x: tensor<3x4xf32>) -> tensor<4xf32> {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %3 = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %r = scf.for %i = %0 to %3 step %1 iter_args(%s = %f) -> (tensor<4xf32>) {
    %j = arith.subi %3, %i : index
    %k = arith.subi %j, %1 : index
    %row = tensor.extract_slice %x[%k, 0] [1, 4] [1, 1] : tensor<3x4xf32> to tensor<4xf32>
    %n = linalg.add ins(%s, %row : tensor<4xf32>, tensor<4xf32>)
                    outs(%e : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %n : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
"""


def folded(text: str, weights: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    ctx = context()
    module = parse_text(text, ctx=ctx)
    host = host_function(module)
    give_weights(host, weights)
    pipeline_of("unroll-host-loops,fold-constants").apply(ctx, module)
    module.verify()
    return module, weights_of(host)


def run(module: Any, values: dict[str, Any]) -> Any:
    arguments = host_function(module).body.block.args
    return reference(module, [values[argument_name(a, i)] for i, a in enumerate(arguments)])[0]


def names(module: Any) -> list[str]:
    return [op.name for op in host_function(module).body.block.ops]


def test_a_transposed_weight_becomes_a_weight():
    generator = np.random.default_rng(0)
    x, w = (generator.standard_normal(s).astype(np.float32) for s in ((2, 3), (4, 3)))
    module, values = folded(TRANSPOSED, {"w": w})
    assert "linalg.transpose" not in names(module)
    assert list(values) == ["w.folded"]
    assert np.array_equal(values["w.folded"], w.T)
    assert np.allclose(run(module, {"x": x} | values), x @ w.T, atol=1e-6)


def test_without_values_nothing_is_folded():
    module, values = folded(TRANSPOSED, {})
    assert "linalg.transpose" in names(module)
    assert values == {}


def test_indexes_of_unrolled_loops_become_static():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    module, _ = folded(SLICES, {})
    slices = [op for op in module.walk() if op.name == "tensor.extract_slice"]
    assert [tuple(op.static_offsets.get_values()) for op in slices] == [(2, 0), (1, 0), (0, 0)]
    assert "arith.subi" not in names(module)
    assert run(module, {"x": x}).tolist() == x.sum(0).tolist()


def test_quantized_weights_stay_bytes():
    text = """
    func.func @main(%w: tensor<8xi8>) -> tensor<8xf32> {
      %e = tensor.empty() : tensor<8xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
          iterator_types = ["parallel"]} ins(%w : tensor<8xi8>) outs(%e : tensor<8xf32>) {
      ^bb0(%a: i8, %o: f32):
        %f = arith.sitofp %a : i8 to f32
        linalg.yield %f : f32
      } -> tensor<8xf32>
      func.return %r : tensor<8xf32>
    }"""
    weights = {"w": np.arange(8, dtype=np.int8)}
    module, values = folded(text, weights)
    assert list(values) == ["w"]
    assert "linalg.generic" in names(module)
    assert run(module, values).tolist() == list(range(8))


BIAS = """
func.func @main(%x: tensor<64x128xf32>, %s: tensor<128xf32>) -> tensor<64x128xf32> {
  %b = tensor.empty() : tensor<128xf32>
  %w = linalg.mul ins(%s, %s : tensor<128xf32>, tensor<128xf32>)
                  outs(%b : tensor<128xf32>) -> tensor<128xf32>
  %e = tensor.empty() : tensor<64x128xf32>
  %t = linalg.broadcast ins(%w : tensor<128xf32>) outs(%e : tensor<64x128xf32>) dimensions = [0]
  %r = linalg.add ins(%x, %t : tensor<64x128xf32>, tensor<64x128xf32>)
                  outs(%e : tensor<64x128xf32>) -> tensor<64x128xf32>
  func.return %r : tensor<64x128xf32>
}
"""


def test_a_broadcast_stays_and_what_it_reads_is_folded():
    x = np.random.default_rng(1).standard_normal((64, 128)).astype(np.float32)
    scale = np.arange(128, dtype=np.float32)
    module, values = folded(BIAS, {"s": scale})
    assert [array.shape for array in values.values()] == [(128,)]
    assert np.array_equal(run(module, {"x": x} | values), x + scale * scale)


def test_a_folded_scalar_keeps_its_rank():
    text = """
func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<f32>
  %m = linalg.mul ins(%y, %y : tensor<f32>, tensor<f32>) outs(%e : tensor<f32>) -> tensor<f32>
  %r = linalg.add ins(%x, %m : tensor<f32>, tensor<f32>) outs(%e : tensor<f32>) -> tensor<f32>
  func.return %r : tensor<f32>
}
"""
    _, values = folded(text, {"y": np.full((), 3, np.float32)})
    assert [(array.shape, float(array)) for array in values.values()] == [((), 9.0)]
