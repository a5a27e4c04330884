// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,turn-weights{target=nvidia-h200}' --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,turn-weights{target=lavapipe}' --split-input-file | filecheck %s --check-prefix=ELSEWHERE
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,turn-weights{target=nvidia-h200 barred="rows=*"}' --split-input-file | filecheck %s --check-prefix=ELSEWHERE

// ELSEWHERE-NOT: linalg.transpose

// Two products use one weight, which is transposed once, before the first product.

// CHECK-LABEL: @two
// CHECK:       [[T:%.*]] = schedule.dispatch(%w) : (tensor<512x1024xf16>) -> tensor<1024x512xf16>
// CHECK:         linalg.transpose
// CHECK-SAME:    permutation = [1, 0]
// CHECK:       schedule.dispatch(%x, [[T]])
// CHECK:         affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-NOT:     linalg.transpose
// CHECK:       schedule.dispatch(%y, [[T]])
func.func @two(%x: tensor<1x512xf16>, %y: tensor<1x512xf16>, %w: tensor<512x1024xf16> {program.value = dense<1.0> : tensor<512x1024xf16>}) -> (tensor<1x1024xf32>, tensor<1x1024xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x1024xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x1024xf32>) -> tensor<1x1024xf32>
  %r = linalg.matmul ins(%x, %w : tensor<1x512xf16>, tensor<512x1024xf16>) outs(%z : tensor<1x1024xf32>) -> tensor<1x1024xf32>
  %s = linalg.matmul ins(%y, %w : tensor<1x512xf16>, tensor<512x1024xf16>) outs(%z : tensor<1x1024xf32>) -> tensor<1x1024xf32>
  func.return %r, %s : tensor<1x1024xf32>, tensor<1x1024xf32>
}

// -----

// An operand that is not a weight is unchanged, because it would be transposed in every run.

// CHECK-LABEL: @input
// CHECK-NOT:   linalg.transpose
func.func @input(%x: tensor<1x512xf16>, %w: tensor<512x1024xf16>, %v: tensor<4xf32> {program.value = dense<1.0> : tensor<4xf32>}) -> tensor<1x1024xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x1024xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x1024xf32>) -> tensor<1x1024xf32>
  %r = linalg.matmul ins(%x, %w : tensor<1x512xf16>, tensor<512x1024xf16>) outs(%z : tensor<1x1024xf32>) -> tensor<1x1024xf32>
  func.return %r : tensor<1x1024xf32>
}

// -----

// A weight that is contiguous along K, and a product of many rows, are unchanged.

// CHECK-LABEL: @others
// CHECK-NOT:   linalg.transpose
func.func @others(%x: tensor<1x512xf16>, %y: tensor<256x512xf16>, %v: tensor<1024x512xf16> {program.value = dense<1.0> : tensor<1024x512xf16>}, %w: tensor<512x1024xf16> {program.value = dense<1.0> : tensor<512x1024xf16>}) -> (tensor<1x1024xf32>, tensor<256x1024xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x1024xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x1024xf32>) -> tensor<1x1024xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %v : tensor<1x512xf16>, tensor<1024x512xf16>) outs(%z : tensor<1x1024xf32>) {
  ^bb0(%a: f16, %b: f16, %t: f32):
    %aw = arith.extf %a : f16 to f32
    %bw = arith.extf %b : f16 to f32
    %p = arith.mulf %aw, %bw : f32
    %s = arith.addf %t, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x1024xf32>
  %f = tensor.empty() : tensor<256x1024xf32>
  %g = linalg.fill ins(%zero : f32) outs(%f : tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %s = linalg.matmul ins(%y, %w : tensor<256x512xf16>, tensor<512x1024xf16>) outs(%g : tensor<256x1024xf32>) -> tensor<256x1024xf32>
  func.return %r, %s : tensor<1x1024xf32>, tensor<256x1024xf32>
}
