// RUN: xdsl-opt %s -p 'linalg-to-contraction,join-products' | filecheck %s
// Queries and keys are one product, followed by the biases. Values have another left operand, and stay separate.

// CHECK-LABEL: @joined
// CHECK:         tensor.concat dim(0) %wq, %wk : (tensor<8x6xf16>, tensor<4x6xf16>) -> tensor<12x6xf16>
// CHECK:         ins(%x, %{{.*}} : tensor<16x6xf16>, tensor<12x6xf16>) outs(%{{.*}} : tensor<16x12xf32>)
// CHECK:         tensor.concat dim(0) %bq, %bk : (tensor<8xf32>, tensor<4xf32>) -> tensor<12xf32>
// CHECK:         schedule.dispatch([[P:%.*]], [[P]], %v) : (tensor<16x12xf16>, tensor<16x12xf16>, tensor<16x8xf16>)
// CHECK:         affine_map<(d0, d1, d2, d3, d4) -> (d1, ((d0 * 4) + d3))>, affine_map<(d0, d1, d2, d3, d4) -> (d2, (d3 + 8))>, affine_map<(d0, d1, d2, d3, d4) -> (d2, ((d0 * 4) + d4))>
func.func @joined(%x: tensor<16x6xf16>, %v: tensor<16x8xf16>) -> tensor<16x8xf32> {
  %wq = arith.constant dense<0.5> : tensor<8x6xf16>
  %wk = arith.constant dense<0.25> : tensor<4x6xf16>
  %bq = arith.constant dense<1.0> : tensor<8xf32>
  %bk = arith.constant dense<2.0> : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %eq = tensor.empty() : tensor<16x8xf32>
  %fq = linalg.fill ins(%zero : f32) outs(%eq : tensor<16x8xf32>) -> tensor<16x8xf32>
  %q = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %wq : tensor<16x6xf16>, tensor<8x6xf16>) outs(%fq : tensor<16x8xf32>) -> tensor<16x8xf32>
  %hq = tensor.empty() : tensor<16x8xf16>
  %qb = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%q, %bq : tensor<16x8xf32>, tensor<8xf32>) outs(%hq : tensor<16x8xf16>) {
  ^bb0(%one: f32, %bias: f32, %unused: f16):
    %sum = arith.addf %one, %bias : f32
    %half = arith.truncf %sum : f32 to f16
    linalg.yield %half : f16
  } -> tensor<16x8xf16>
  %ek = tensor.empty() : tensor<16x4xf32>
  %fk = linalg.fill ins(%zero : f32) outs(%ek : tensor<16x4xf32>) -> tensor<16x4xf32>
  %k = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %wk : tensor<16x6xf16>, tensor<4x6xf16>) outs(%fk : tensor<16x4xf32>) -> tensor<16x4xf32>
  %hk = tensor.empty() : tensor<16x4xf16>
  %kb = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%k, %bk : tensor<16x4xf32>, tensor<4xf32>) outs(%hk : tensor<16x4xf16>) {
  ^bb0(%one: f32, %bias: f32, %unused: f16):
    %sum = arith.addf %one, %bias : f32
    %half = arith.truncf %sum : f32 to f16
    linalg.yield %half : f16
  } -> tensor<16x4xf16>
  %r = schedule.dispatch(%qb, %kb, %v) : (tensor<16x8xf16>, tensor<16x4xf16>, tensor<16x8xf16>) -> tensor<16x8xf32> {
  ^bb0(%queries: tensor<16x8xf16>, %keys: tensor<16x4xf16>, %values: tensor<16x8xf16>):
    %o = tensor.empty() : tensor<16x8xf32>
    %a = schedule.attention %queries, %keys, %values into %o loops = [2, 16, 16, 4, 4] maps = [affine_map<(h, m, n, d, e) -> (m, h * 4 + d)>, affine_map<(h, m, n, d, e) -> (n, d)>, affine_map<(h, m, n, d, e) -> (n, h * 4 + e)>, affine_map<(h, m, n, d, e) -> (m, h * 4 + e)>] scale = 0.5 : tensor<16x8xf16>, tensor<16x4xf16>, tensor<16x8xf16> into tensor<16x8xf32> -> tensor<16x8xf32>
    schedule.yield %a : tensor<16x8xf32>
  }
  return %r : tensor<16x8xf32>
}
