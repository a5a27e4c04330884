// RUN: not xdsl-opt -p split-products{target=lavapipe} %s 2>&1 | filecheck %s

// CHECK: split-products: 'builtin.module': lavapipe has no cooperative matrices of bf16 x bf16 -> f32: leave out `--allow bf16x3`
func.func @main(%a: tensor<64x96xf32>, %b: tensor<96x48xf32>, %c: tensor<64x48xf32>) -> tensor<64x48xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<64x96xf32>, tensor<96x48xf32>) outs(%c : tensor<64x48xf32>) -> tensor<64x48xf32>
  return %r : tensor<64x48xf32>
}
