// RUN: xdsl-opt %s -p linalg-to-contraction | filecheck %s
// A weight that is broadcast over a batch is read in place, and the batch becomes rows.

// CHECK-LABEL: @repeated
func.func @repeated(%x: tensor<3x5x8xf16>, %w: tensor<1x8x6xf16>, %c: tensor<3x5x6xf32>) -> tensor<3x5x6xf32> {
  // CHECK-NEXT: [[W:%.*]] = tensor.collapse_shape %w [[0 : i64, 1 : i64], [2 : i64]] : tensor<1x8x6xf16> into tensor<8x6xf16>
  // CHECK-NEXT: %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, [[W]] : tensor<3x5x8xf16>, tensor<8x6xf16>)
  %e = tensor.empty() : tensor<3x8x6xf16>
  %b = linalg.generic {indexing_maps = [affine_map<(i, k, n) -> (0, k, n)>, affine_map<(i, k, n) -> (i, k, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<1x8x6xf16>) outs(%e : tensor<3x8x6xf16>) {
  ^bb0(%one: f16, %unused: f16):
    linalg.yield %one : f16
  } -> tensor<3x8x6xf16>
  %r = linalg.batch_matmul ins(%x, %b : tensor<3x5x8xf16>, tensor<3x8x6xf16>) outs(%c : tensor<3x5x6xf32>) -> tensor<3x5x6xf32>
  return %r : tensor<3x5x6xf32>
}

// Two broadcast dimensions may have been collapsed to one.
// CHECK-LABEL: @collapsed
func.func @collapsed(%x: tensor<6x5x8xf16>, %w: tensor<8x6xf16>, %c: tensor<6x5x6xf32>) -> tensor<6x5x6xf32> {
  // CHECK-NOT: linalg.broadcast
  // CHECK: affine_map<(d0, d1, d2, d3) -> (d3, d2)>
  // CHECK-SAME: ins(%x, %w : tensor<6x5x8xf16>, tensor<8x6xf16>)
  %e = tensor.empty() : tensor<2x3x8x6xf16>
  %b = linalg.broadcast ins(%w : tensor<8x6xf16>) outs(%e : tensor<2x3x8x6xf16>) dimensions = [0, 1]
  %f = tensor.collapse_shape %b [[0, 1], [2], [3]] : tensor<2x3x8x6xf16> into tensor<6x8x6xf16>
  %r = linalg.batch_matmul ins(%x, %f : tensor<6x5x8xf16>, tensor<6x8x6xf16>) outs(%c : tensor<6x5x6xf32>) -> tensor<6x5x6xf32>
  return %r : tensor<6x5x6xf32>
}

// The rows of each result would not be contiguous, so the batch stays a batch.
// CHECK-LABEL: @left
func.func @left(%w: tensor<5x8xf16>, %x: tensor<3x8x6xf16>, %c: tensor<3x5x6xf32>) -> tensor<3x5x6xf32> {
  // CHECK: %b = linalg.broadcast
  // CHECK: ins(%b, %x : tensor<3x5x8xf16>, tensor<3x8x6xf16>)
  %e = tensor.empty() : tensor<3x5x8xf16>
  %b = linalg.broadcast ins(%w : tensor<5x8xf16>) outs(%e : tensor<3x5x8xf16>) dimensions = [0]
  %r = linalg.batch_matmul ins(%b, %x : tensor<3x5x8xf16>, tensor<3x8x6xf16>) outs(%c : tensor<3x5x6xf32>) -> tensor<3x5x6xf32>
  return %r : tensor<3x5x6xf32>
}
