// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// CHECK: the result of packing tensor<60x30xf16> must be 1x4x2x256xf16, not tensor<1x4x1x256xf16>
func.func @shape(%B: tensor<60x30xf16>, %e: tensor<1x4x1x256xf16>) {
  %p = schedule.pack %B into %e by <B, fragment = [16, 16], tile = [32, 16], map = affine_map<(n, k) -> (k, n)>, sizes = [30, 60], groups = [0, 1, 1]> : tensor<60x30xf16> into tensor<1x4x1x256xf16> -> tensor<1x4x1x256xf16>
  func.return
}

// -----

// CHECK: tile = 24 is not a multiple of the fragment's 16
func.func @tile(%p: tensor<1x4x2x256xf16>) {
  %v = schedule.packed_view %p by <B, fragment = [16, 16], tile = [24, 16], map = affine_map<(n, k) -> (k, n)>, sizes = [30, 60], groups = [0, 1, 1]> : tensor<1x4x2x256xf16> to tensor<60x30xf16>
  func.return
}
