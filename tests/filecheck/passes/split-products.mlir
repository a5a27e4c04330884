// RUN: xdsl-opt -p split-products %s | filecheck %s

// A product of f32 becomes bf16 products of three parts of each operand: high, high, low by high, low, high.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<64x96xf32>, %b: tensor<96x48xf32>, %c: tensor<64x48xf32>) -> tensor<64x48xf32> {
  // CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%a : tensor<64x96xf32>) outs(%{{.*}} : tensor<3x64x96xbf16>)
  // CHECK: %[[HIGH:.*]] = arith.truncf %{{.*}} : f32 to bf16
  // CHECK: %[[MISSING:.*]] = arith.truncf %{{.*}} : f32 to bf16
  // CHECK: arith.constant 2 : index
  // CHECK: arith.select %{{.*}}, %[[MISSING]], %[[HIGH]] : bf16
  // CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%b : tensor<96x48xf32>) outs(%{{.*}} : tensor<3x96x48xbf16>)
  // CHECK: arith.constant 1 : index
  // CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d2, d0, d3)>, affine_map<(d0, d1, d2, d3) -> (d2, d3, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%[[A]], %[[B]] : tensor<3x64x96xbf16>, tensor<3x96x48xbf16>) outs(%c : tensor<64x48xf32>)
  %r = linalg.matmul ins(%a, %b : tensor<64x96xf32>, tensor<96x48xf32>) outs(%c : tensor<64x48xf32>) -> tensor<64x48xf32>
  return %r : tensor<64x48xf32>
}

// One row does not fill a matrix, and f16 has its own matrices, so they are not split.

// CHECK-LABEL: func.func @others
func.func @others(%a: tensor<1x96xf32>, %b: tensor<96x48xf32>, %c: tensor<1x48xf32>,
                  %x: tensor<64x96xf16>, %y: tensor<96x48xf16>, %z: tensor<64x48xf32>) -> (tensor<1x48xf32>, tensor<64x48xf32>) {
  // CHECK: linalg.matmul ins(%a, %b
  %r = linalg.matmul ins(%a, %b : tensor<1x96xf32>, tensor<96x48xf32>) outs(%c : tensor<1x48xf32>) -> tensor<1x48xf32>
  // CHECK: linalg.matmul ins(%x, %y
  %s = linalg.matmul ins(%x, %y : tensor<64x96xf16>, tensor<96x48xf16>) outs(%z : tensor<64x48xf32>) -> tensor<64x48xf32>
  return %r, %s : tensor<1x48xf32>, tensor<64x48xf32>
}
