// RUN: xdsl-opt %s -p 'decompose-linalg' --split-input-file | filecheck %s

// CHECK-LABEL: func.func @softmax
// CHECK: linalg.generic {{.*}} ins(%x : tensor<2x?xf32>)
// CHECK: arith.maximumf
// CHECK: linalg.generic
// CHECK: arith.subf
// CHECK: math.exp
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK: linalg.generic
// CHECK: arith.divf
// CHECK-NOT: linalg.softmax
func.func @softmax(%x: tensor<2x?xf32>, %e: tensor<2x?xf32>) -> tensor<2x?xf32> {
  %r = linalg.softmax dimension(1) ins(%x : tensor<2x?xf32>) outs(%e : tensor<2x?xf32>) -> tensor<2x?xf32>
  func.return %r : tensor<2x?xf32>
}

// -----

// CHECK-LABEL: func.func @pack
// CHECK: %[[P:.*]] = tensor.pad %x low[0, 0] high[1, 3]
// CHECK: %[[S:.*]] = tensor.expand_shape %[[P]] {{.*}} into tensor<2x4x3x4xf32>
// CHECK: linalg.transpose ins(%[[S]]:tensor<2x4x3x4xf32>) outs({{.*}}) permutation = [2, 0, 3, 1]
func.func @pack(%x: tensor<7x9xf32>, %d: f32, %e: tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32> {
  %r = linalg.pack %x padding_value(%d : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [4, 4] into %e : tensor<7x9xf32> -> tensor<3x2x4x4xf32>
  func.return %r : tensor<3x2x4x4xf32>
}

// -----

// CHECK-LABEL: func.func @unpack
// CHECK: %[[T:.*]] = linalg.transpose {{.*}} permutation = [1, 3, 0, 2]
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[T]]
// CHECK: tensor.extract_slice %[[C]][0, 0] [7, 9] [1, 1]
func.func @unpack(%x: tensor<3x2x4x4xf32>, %e: tensor<7x9xf32>) -> tensor<7x9xf32> {
  %r = linalg.unpack %x outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [4, 4] into %e : tensor<3x2x4x4xf32> -> tensor<7x9xf32>
  func.return %r : tensor<7x9xf32>
}
