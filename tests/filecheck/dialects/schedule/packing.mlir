// RUN: XDSL_ROUNDTRIP

// CHECK-LABEL: func.func @main
// CHECK: schedule.pack %{{.*}} into %{{.*}} by <B, fragment = [16, 16], tile = [32, 16], map = affine_map<(d0, d1) -> (d1, d0)>, sizes = [30, 60], groups = [0, 1, 1]> : tensor<60x30xf16> into tensor<1x4x2x256xf16> -> tensor<1x4x2x256xf16>
// CHECK: schedule.packed_view %{{.*}} by <B, {{.*}}> : tensor<1x4x2x256xf16> to tensor<60x30xf16>
// CHECK: #schedule.contraction<{{.*}} a = staged<padding = 8, vector = 2>, b = direct, stages = 2, raster = rows>
func.func @main(%B: tensor<60x30xf16>) -> tensor<60x30xf16> {
  %e = tensor.empty() : tensor<1x4x2x256xf16>
  %p = schedule.pack %B into %e by <B, fragment = [16, 16], tile = [32, 16], map = affine_map<(n, k) -> (k, n)>, sizes = [30, 60], groups = [0, 1, 1]> : tensor<60x30xf16> into tensor<1x4x2x256xf16> -> tensor<1x4x2x256xf16>
  %v = schedule.packed_view %p by <B, fragment = [16, 16], tile = [32, 16], map = affine_map<(n, k) -> (k, n)>, sizes = [30, 60], groups = [0, 1, 1]> : tensor<1x4x2x256xf16> to tensor<60x30xf16>
  "test.op"() {schedule = #schedule.contraction<workgroup_tile = [32, 32, 16], subgroups = [2, 2], instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 2>, b = direct, stages = 2>} : () -> ()
  func.return %v : tensor<60x30xf16>
}
