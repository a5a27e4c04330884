// RUN: xdsl-opt %s -t 'spirv-run{values=iota}' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,assign-schedule{target=lavapipe},outline-dispatches' -t 'spirv-run{values=iota}' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=lavapipe}' -t 'spirv-run{values=iota subgroup-size=8 checks=all}' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=nvidia-h200}' -t 'spirv-run{values=iota}' | filecheck %s
// RUN: xdsl-opt %s -t 'spirv-run{values=ones}' | filecheck %s --check-prefix=ONES
// The results are equal at every stage of the lowering.

// CHECK:      result0: 3x5xfloat32
// CHECK-NEXT: {{\[\[}}30., 13., 20., 19., 26.],
// CHECK-NEXT:  [91., 58., 81., 56., 79.],
// CHECK-NEXT:  [32., 15., 22., 21., 28.]
// ONES:       {{\[\[}}5., 5., 5., 5., 5.],
func.func @main(%A: tensor<3x4xf16>, %B: tensor<4x5xf16>, %C: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %r = linalg.matmul ins(%A, %B : tensor<3x4xf16>, tensor<4x5xf16>) outs(%C : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}
