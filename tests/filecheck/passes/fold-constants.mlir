// RUN: xdsl-opt %s -p 'fold-constants' --split-input-file | filecheck %s

// A transposed weight becomes a weight. The original weight is removed if it has no other use.
// CHECK:      func.func @transposed(%x: tensor<2x2xf32>, %folded: tensor<2x2xf32>
// CHECK-SAME:     {program.name = "w.folded", program.type = "f32",
// CHECK-SAME:      program.value = dense_resource<transposed.w.folded> : tensor<2x2xf32>})
// CHECK-NEXT:   %e = tensor.empty() : tensor<2x2xf32>
// CHECK-NEXT:   linalg.add ins(%x, %folded
// CHECK:      transposed.w.folded: "0x040000000000803f000040400000004000008040"
func.func @transposed(%x: tensor<2x2xf32>, %w: tensor<2x2xf32> {program.value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>}) -> tensor<2x2xf32> {
  %e = tensor.empty() : tensor<2x2xf32>
  %t = linalg.transpose ins(%w : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) permutation = [1, 0]
  %r = linalg.add ins(%x, %t : tensor<2x2xf32>, tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %r : tensor<2x2xf32>
}

// -----

// Indices become constants, and slices static. A weight without data is unchanged.
// CHECK:      func.func @indices(%x: tensor<4xf32>, %w: tensor<2xf32> {program.value = dense_resource<absent> : tensor<2xf32>})
// CHECK:        tensor.extract_slice %x[3] [1] [1] : tensor<4xf32> to tensor<1xf32>
// CHECK:        linalg.exp ins(%w
func.func @indices(%x: tensor<4xf32>, %w: tensor<2xf32> {program.value = dense_resource<absent> : tensor<2xf32>}) -> (tensor<1xf32>, tensor<2xf32>) {
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %3 = arith.addi %1, %2 : index
  %e = tensor.empty() : tensor<2xf32>
  %s = tensor.extract_slice %x[%3] [1] [1] : tensor<4xf32> to tensor<1xf32>
  %r = linalg.exp ins(%w : tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  func.return %s, %r : tensor<1xf32>, tensor<2xf32>
}
