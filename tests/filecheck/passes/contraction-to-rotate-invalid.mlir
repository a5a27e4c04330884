// RUN: not xdsl-opt %s -p 'assign-schedule{target=lavapipe}' 2>&1 | filecheck %s
// RUN: not xdsl-opt %s -p 'assign-schedule{target=nvidia-h200}' 2>&1 | filecheck %s --check-prefix=WIDE

// CHECK: windows end 12 elements after they begin: at most 8 would fit
// WIDE: outputs = 2 does not divide the 1 filters

func.func @main(%w: tensor<2x5xf32>, %x: tensor<2x52xf32>, %d: tensor<2x40xf32>) -> tensor<2x40xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(c, j, k) -> (c, k)>, affine_map<(c, j, k) -> (c, j + k * 3)>, affine_map<(c, j, k) -> (c, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w, %x : tensor<2x5xf32>, tensor<2x52xf32>) outs(%d : tensor<2x40xf32>) attrs = {schedule = #schedule.window<outputs = 2, subgroups = 1>} {
  ^bb0(%p: f32, %q: f32, %acc: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x40xf32>
  func.return %r : tensor<2x40xf32>
}
