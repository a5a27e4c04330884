// RUN: xdsl-opt %s -p 'assign-schedule{target=nvidia-h200}' | filecheck %s
// RUN: xdsl-opt %s -p 'assign-schedule' | filecheck %s
// A handwritten schedule that fits is kept. The module may already name the target.

builtin.module attributes {schedule.target = "nvidia-h200"} {
  func.func @main(%e: tensor<100x60xf16>, %f: tensor<60x75xf16>, %g: tensor<100x75xf32>) -> tensor<100x75xf32> {
    // CHECK: workgroup_tile = [32, 16, 48], subgroups = [1, 1], instruction = coopmat 16x8x8, a = staged<padding = 0, vector = 2>, b = staged<padding = 0, vector = 1>, raster = columns>
    %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [32, 16, 48], subgroups = [1, 1], instruction = coopmat 16x8x8, a = staged<vector = 2>, b = staged<>, raster = columns>} ins(%e, %f : tensor<100x60xf16>, tensor<60x75xf16>) outs(%g : tensor<100x75xf32>) -> tensor<100x75xf32>
    func.return %0 : tensor<100x75xf32>
  }
}
