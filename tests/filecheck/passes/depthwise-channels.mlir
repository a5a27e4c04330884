// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200}' --split-input-file | filecheck %s

// Channels are adjacent in memory: loops are vectorized along them, and each invocation computes a channel of a pixel.
// CHECK-LABEL: @nhwc
// CHECK:       schedule.dispatch{{.*}}schedule = #schedule.loops
// CHECK-NOT:   #schedule.contraction
func.func @nhwc(%x: tensor<2x10x10x32xf16>, %w: tensor<3x3x32xf16>, %z: tensor<2x8x8x32xf32>) -> tensor<2x8x8x32xf32> {
  %r = linalg.depthwise_conv_2d_nhwc_hwc ins(%x, %w : tensor<2x10x10x32xf16>, tensor<3x3x32xf16>) outs(%z : tensor<2x8x8x32xf32>) -> tensor<2x8x8x32xf32>
  func.return %r : tensor<2x8x8x32xf32>
}

// -----

// Channels precede pixels: the invocations of a subgroup are adjacent in a row, and rotate what they load.
// CHECK-LABEL: @nchw
// CHECK:       #schedule.window
func.func @nchw(%x: tensor<2x32x10x10xf16>, %w: tensor<32x3x3xf16>, %z: tensor<2x32x8x8xf32>) -> tensor<2x32x8x8xf32> {
  %r = linalg.depthwise_conv_2d_nchw_chw ins(%x, %w : tensor<2x32x10x10xf16>, tensor<32x3x3xf16>) outs(%z : tensor<2x32x8x8xf32>) -> tensor<2x32x8x8xf32>
  func.return %r : tensor<2x32x8x8xf32>
}

// -----

// An existing schedule is kept.
// CHECK-LABEL: @given
// CHECK:       #schedule.contraction<workgroup_tile = [16, 16, 16], {{.*}}fma
func.func @given(%x: tensor<1x6x8xf32>, %w: tensor<3x8xf32>, %z: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %r = linalg.depthwise_conv_1d_nwc_wc {schedule = #schedule.contraction<workgroup_tile = [16, 16, 16], subgroups = [1, 1], instruction = fma 4x2x4, a = staged<padding = 4>, b = staged<padding = 4>>} ins(%x, %w : tensor<1x6x8xf32>, tensor<3x8xf32>) outs(%z : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  func.return %r : tensor<1x4x8xf32>
}
