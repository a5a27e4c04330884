// RUN: xdsl-opt %s -p 'assign-schedule{target=nvidia-h200}' | filecheck %s --check-prefix=H200
// RUN: xdsl-opt %s -p 'assign-schedule{target=lavapipe}' | filecheck %s --check-prefix=LAVAPIPE
// A large result gets large tiles, and a small one enough workgroups. Rows that
// vectors do not divide are moved by element. An existing schedule that fits is kept.

// H200: builtin.module attributes {schedule.target = "nvidia-h200"}
// LAVAPIPE: builtin.module attributes {schedule.target = "lavapipe"}
func.func @main(%a: tensor<4096x4096xf16>, %b: tensor<4096x4096xf16>, %c: tensor<4096x4096xf32>, %d: tensor<4096x4096xf16>, %e: tensor<100x60xf16>, %f: tensor<60x75xf16>, %g: tensor<100x75xf32>) -> tensor<100x75xf32> {
  // H200: workgroup_tile = [128, 256, 32], subgroups = [2, 4], instruction = coopmat 16x16x16, a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 8>, raster = rows<8>>
  // LAVAPIPE: workgroup_tile = [32, 32, 8], subgroups = [2, 2], instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 8>, raster = rows>
  %0 = linalg.matmul ins(%a, %b : tensor<4096x4096xf16>, tensor<4096x4096xf16>) outs(%c : tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  // H200: workgroup_tile = [256, 256, 32], subgroups = [4, 2], instruction = coopmat 16x16x16,
  // LAVAPIPE: workgroup_tile = [32, 32, 8], subgroups = [2, 2], instruction = coopmat 8x8x8,
  %1 = linalg.matmul ins(%a, %b : tensor<4096x4096xf16>, tensor<4096x4096xf16>) outs(%d : tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
  // H200: workgroup_tile = [16, 16, 32], subgroups = [1, 1], instruction = coopmat 16x16x16, a = staged<padding = 8, vector = 4>, b = staged<padding = 8, vector = 1>,
  // LAVAPIPE: workgroup_tile = [32, 32, 8], subgroups = [2, 2], instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 4>, b = staged<padding = 8, vector = 1>,
  %2 = linalg.matmul ins(%e, %f : tensor<100x60xf16>, tensor<60x75xf16>) outs(%g : tensor<100x75xf32>) -> tensor<100x75xf32>
  return %2 : tensor<100x75xf32>
}
