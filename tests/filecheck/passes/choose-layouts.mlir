// RUN: xdsl-opt %s -p 'linalg-to-contraction,choose-layouts{target=nvidia-h200}' --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,choose-layouts{target=lavapipe}' --split-input-file | filecheck %s --check-prefix=ELSEWHERE

// ELSEWHERE-NOT: (d0, d3, d1, d2)

// Tensors that are read through windows, and weights, get their channels last. The result keeps its order.

// CHECK-LABEL: @windows
// CHECK:       [[X:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>
// CHECK-SAME:    ins(%x
// CHECK:       [[W:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>
// CHECK-SAME:    ins(%w
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d5, d6)>
// CHECK-SAME:    (d1, (d2 + d4), (d3 + d5), d6)>
// CHECK-SAME:    (d1, d0, d2, d3)>
// CHECK-SAME:    ins([[W]], [[X]] :
// CHECK:       func.return {{.*}} : tensor<1x64x16x16xf16>
func.func @windows(%x: tensor<1x64x18x18xf16>, %w: tensor<64x64x3x3xf16> {program.value = dense<1.0> : tensor<64x64x3x3xf16>}) -> tensor<1x64x16x16xf16> {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<1x64x16x16xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<1x64x16x16xf16>) -> tensor<1x64x16x16xf16>
  %c = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%x, %w : tensor<1x64x18x18xf16>, tensor<64x64x3x3xf16>) outs(%f : tensor<1x64x16x16xf16>) -> tensor<1x64x16x16xf16>
  %r = linalg.exp ins(%c : tensor<1x64x16x16xf16>) outs(%e : tensor<1x64x16x16xf16>) -> tensor<1x64x16x16xf16>
  func.return %r : tensor<1x64x16x16xf16>
}

// -----

// A product of one row and one column per window gains nothing, and keeps its layout.

// CHECK-LABEL: @small
// CHECK-NOT:   (d0, d3, d1, d2)
func.func @small(%x: tensor<1x2x4x4xf16>, %w: tensor<2x2x3x3xf16> {program.value = dense<1.0> : tensor<2x2x3x3xf16>}) -> tensor<1x2x2x2xf16> {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<1x2x2x2xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<1x2x2x2xf16>) -> tensor<1x2x2x2xf16>
  %c = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%x, %w : tensor<1x2x4x4xf16>, tensor<2x2x3x3xf16>) outs(%f : tensor<1x2x2x2xf16>) -> tensor<1x2x2x2xf16>
  %r = linalg.exp ins(%c : tensor<1x2x2x2xf16>) outs(%e : tensor<1x2x2x2xf16>) -> tensor<1x2x2x2xf16>
  func.return %r : tensor<1x2x2x2xf16>
}
