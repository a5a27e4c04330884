// RUN: not xdsl-opt -p split-products{target=lavapipe} %s 2>&1 | filecheck %s
// RUN: not xdsl-opt -p split-products{target=nvidia-h200} %s 2>&1 | filecheck %s --check-prefix=FEW

// CHECK: split-products: 'builtin.module': lavapipe has no cooperative matrices of bf16 x bf16 -> f32: leave out `--allow bf16x3`
// FEW: split-products: 'builtin.module': no product of f32 has 16 rows and columns: leave out `--allow bf16x3`
func.func @main(%a: tensor<1x96xf32>, %b: tensor<96x48xf32>, %c: tensor<1x48xf32>) -> tensor<1x48xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<1x96xf32>, tensor<96x48xf32>) outs(%c : tensor<1x48xf32>) -> tensor<1x48xf32>
  return %r : tensor<1x48xf32>
}
