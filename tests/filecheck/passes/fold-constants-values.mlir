// RUN: xdsl-opt %s -t 'spirv-run{values=ones}' | filecheck %s
// RUN: xdsl-opt %s -p 'lift-weights' -t 'spirv-run{values=ones}' | filecheck %s
// RUN: xdsl-opt %s -p 'lift-weights,fold-constants' | xdsl-opt -t 'spirv-run{values=ones}' | filecheck %s
// RUN: xdsl-opt %s -p 'lift-weights,fold-constants' | xdsl-opt -p 'linalg-to-spirv{target=lavapipe}' -t 'spirv-run{values=ones subgroup-size=8}' | filecheck %s

// A module with weights gives the same results at every stage, also after printing and parsing.
// CHECK:      result0: 2x2xfloat32
// CHECK-NEXT: {{\[\[}}2., 4.],
// CHECK-NEXT:  [3., 5.]]
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %t = linalg.transpose ins(%w : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) permutation = [1, 0]
  %r = linalg.add ins(%x, %t : tensor<2x2xf32>, tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %r : tensor<2x2xf32>
}
