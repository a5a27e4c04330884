// RUN: xdsl-opt %s -p 'form-dispatches,assign-schedule{target=nvidia-h200}' | filecheck %s
// The channels of a window are adjacent in memory. Each invocation sums the window of one channel,
// and adjacent invocations take adjacent channels. A subgroup per sum would read distant elements.

// CHECK-LABEL: func.func @depthwise(
// CHECK:         #schedule.loops<workgroup = 64, workgroups = {{[0-9]+}}, elements = 2, reduce = invocation>
func.func @depthwise(%x: tensor<1x20x20x384xf32>, %w: tensor<7x7x384xf32>) -> tensor<1x14x14x384xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x14x14x384xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x14x14x384xf32>) -> tensor<1x14x14x384xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, c, y, x) -> (n, h + y, w + x, c)>, affine_map<(n, h, w, c, y, x) -> (y, x, c)>, affine_map<(n, h, w, c, y, x) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<1x20x20x384xf32>, tensor<7x7x384xf32>) outs(%zeros : tensor<1x14x14x384xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %t, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x14x14x384xf32>
  func.return %r : tensor<1x14x14x384xf32>
}
