// RUN: xdsl-opt %s -p 'outline-dispatches' --verify-diagnostics | filecheck %s
// The sums of a kernel begin at zero, so a dispatch with another initial value is refused.

builtin.module attributes {schedule.target = "lavapipe"} {
  func.func @main(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
    // CHECK: outline-dispatches: 'linalg.generic' (%s) in @main: the contraction's initial value is not zero, but a kernel begins its sums with zero: begin with a linalg.fill of zero, and add the value after the contraction
    %r = schedule.dispatch(%a, %b, %c) : (tensor<8x8xf16>, tensor<8x8xf16>, tensor<8x8xf32>) -> tensor<8x8xf32> {
    ^bb0(%x: tensor<8x8xf16>, %y: tensor<8x8xf16>, %init: tensor<8x8xf32>):
      %s = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %y : tensor<8x8xf16>, tensor<8x8xf16>) outs(%init : tensor<8x8xf32>) attrs = {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<vector = 8>, b = staged<vector = 8>>} {
      ^bb0(%p: f16, %q: f16, %acc: f32):
        %pp = arith.extf %p : f16 to f32
        %qq = arith.extf %q : f16 to f32
        %t = arith.mulf %pp, %qq : f32
        %u = arith.addf %acc, %t : f32
        linalg.yield %u : f32
      } -> tensor<8x8xf32>
      schedule.yield %s : tensor<8x8xf32>
    }
    func.return %r : tensor<8x8xf32>
  }
}
