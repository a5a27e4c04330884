// RUN: xdsl-opt %s -p 'linalg-to-contraction,assign-schedule{target=lavapipe}' --verify-diagnostics --split-input-file | filecheck %s
// A schedule that does not fit is refused with the operation, the numbers, and the nearest schedule that fits.

// CHECK: assign-schedule: 'linalg.generic' in @main: 128x128x128 f16 x f16 -> f32: CM-29: lavapipe has no cooperative matrices 16x16x16 of f16 x f16 -> f32; it has 8x8x8
func.func @main(%a: tensor<128x128xf16>, %b: tensor<128x128xf16>, %c: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [16, 16, 16], subgroups = [1, 1], instruction = coopmat 16x16x16, a = staged<>, b = staged<>>} ins(%a, %b : tensor<128x128xf16>, tensor<128x128xf16>) outs(%c : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// -----

// CHECK: assign-schedule: 'linalg.generic' in @main: 128x128x128 f16 x f16 -> f32: Workgroup memory of 35840 bytes (A 18432, B 17408, result 0) exceeds lavapipe's 32768: workgroup_tile K = 56 instead of 64 would fit
func.func @main(%a: tensor<128x128xf16>, %b: tensor<128x128xf16>, %c: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [128, 128, 64], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 8>>} ins(%a, %b : tensor<128x128xf16>, tensor<128x128xf16>) outs(%c : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// -----

// CHECK: assign-schedule: 'linalg.generic' in @main: 128x128x128 f16 x f16 -> f32: 256 subgroups of 8 are 2048 invocations, but lavapipe allows 1024: use at most 128
func.func @main(%a: tensor<128x128xf16>, %b: tensor<128x128xf16>, %c: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [128, 128, 8], subgroups = [16, 16], instruction = coopmat 8x8x8, a = staged<vector = 8>, b = staged<vector = 8>>} ins(%a, %b : tensor<128x128xf16>, tensor<128x128xf16>) outs(%c : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// -----

// CHECK: assign-schedule: 'linalg.generic' in @main: 128x128x128 f16 x f16 -> f32: a: vector = 16 is not a power of two of at most 16 bytes: use 8
func.func @main(%a: tensor<128x128xf16>, %b: tensor<128x128xf16>, %c: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [16, 16, 16], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<vector = 16>, b = staged<>>} ins(%a, %b : tensor<128x128xf16>, tensor<128x128xf16>) outs(%c : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// -----

// CHECK: assign-schedule: 'linalg.generic' in @main: 128x128x128 f16 x f16 -> f32: a: padding = 4 is not a multiple of vector = 8: use 8; a: rows of 40 bytes in Workgroup memory are not a multiple of 16, which cooperative loads need: use padding = 0
func.func @main(%a: tensor<128x128xf16>, %b: tensor<128x128xf16>, %c: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [16, 16, 16], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<vector = 8, padding = 4>, b = staged<>>} ins(%a, %b : tensor<128x128xf16>, tensor<128x128xf16>) outs(%c : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// -----

// CHECK: assign-schedule: 'linalg.generic' in @main: 128x128x128 f16 x f16 -> f32: a: buffers = 1 is less than the other operand has; stages = 3 exceeds 2
func.func @main(%a: tensor<128x128xf16>, %b: tensor<128x128xf16>, %c: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [16, 16, 16], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<>, b = staged<buffers = 2>, stages = 3>} ins(%a, %b : tensor<128x128xf16>, tensor<128x128xf16>) outs(%c : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// -----

// CHECK: assign-schedule: 'linalg.generic' in @main: 128x128x128 f16 x f16 -> f32: a: buffers = 2 needs stages = 2; b: buffers = 3 exceeds 2
func.func @main(%a: tensor<128x128xf16>, %b: tensor<128x128xf16>, %c: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [16, 16, 16], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<buffers = 2>, b = staged<buffers = 3>>} ins(%a, %b : tensor<128x128xf16>, tensor<128x128xf16>) outs(%c : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// -----

// CHECK: 'linalg.generic' in @main: 8x8x8 f32 x f32 -> f32: CM-29: lavapipe has no cooperative matrices of f32 x f32 -> f32; it has f16 x f16 -> f16, f16 x f16 -> f32, s8 x s8 -> s32, u8 x u8 -> u32
func.func @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<>, b = staged<>>} ins(%a, %b : tensor<8x8xf32>, tensor<8x8xf32>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// CHECK: 'linalg.generic' in @main: 8x8x8 bf16 x bf16 -> f32: CM-29: lavapipe has no cooperative matrices of bf16 x bf16 -> f32
func.func @main(%a: tensor<8x8xbf16>, %b: tensor<8x8xbf16>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<>, b = staged<>>} ins(%a, %b : tensor<8x8xbf16>, tensor<8x8xbf16>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// CHECK: fma: a subgroup computes 8 blocks of 1 x 1 elements, but the workgroup_tile has 8 x 8 blocks for each subgroup: use a tile of 8 elements
func.func @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], instruction = fma 1x1x1, a = staged<>, b = staged<>>} ins(%a, %b : tensor<8x8xf32>, tensor<8x8xf32>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// CHECK: fma supports results of f16, f32, f64, s8, u8, s16, u16, s32, u32, s64, u64, not bf16
func.func @main(%a: tensor<8x8xbf16>, %b: tensor<8x8xbf16>, %c: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [4, 2, 8], subgroups = [1, 1], instruction = fma 1x1x1, a = staged<>, b = staged<>>} ins(%a, %b : tensor<8x8xbf16>, tensor<8x8xbf16>) outs(%c : tensor<8x8xbf16>) -> tensor<8x8xbf16>
  return %0 : tensor<8x8xbf16>
}

// -----

// CHECK: a: vector = 8, but fma supports at most 4
func.func @main(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [4, 2, 8], subgroups = [1, 1], instruction = fma 1x1x8, a = staged<vector = 8>, b = staged<>>} ins(%a, %b : tensor<8x8xf16>, tensor<8x8xf16>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// CHECK: a: vector = 4 does not divide the operand's rows of 10 contiguous elements: use 2
func.func @main(%a: tensor<8x10xf16>, %b: tensor<10x8xf16>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<vector = 4>, b = staged<vector = 4>>} ins(%a, %b : tensor<8x10xf16>, tensor<10x8xf16>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}


// -----

// CHECK: dot multiplies s8 and u8 into 32 bits, not f16 x f16 -> f32: use fma
func.func @main(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [4, 2, 8], subgroups = [1, 1], instruction = dot 1x1x8, a = staged<vector = 4>, b = staged<vector = 4>>} ins(%a, %b : tensor<8x8xf16>, tensor<8x8xf16>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// CHECK: dot: K = 6 is not a multiple of 4: use 8; b: vector = 2 is not a multiple of 4, which dot needs
func.func @main(%a: tensor<8x8xi8>, %b: tensor<8x8xi8>, %c: tensor<8x8xi32>) -> tensor<8x8xi32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [4, 2, 12], subgroups = [1, 1], instruction = dot 1x1x6, a = staged<vector = 4>, b = staged<vector = 2>>} ins(%a, %b : tensor<8x8xi8>, tensor<8x8xi8>) outs(%c : tensor<8x8xi32>) -> tensor<8x8xi32>
  return %0 : tensor<8x8xi32>
}

// -----

// CHECK: a = direct needs coopmat: use staged, by rows or panels, for fma
func.func @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [4, 2, 8], subgroups = [1, 1], instruction = fma 1x1x1, a = direct, b = staged<>>} ins(%a, %b : tensor<8x8xf32>, tensor<8x8xf32>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// CHECK: stages = 2: each invocation copies 64 vectors of a, but only 16 fit in registers: use a smaller K or stages = 1
func.func @main(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [64, 8, 8], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<padding = 8>, b = staged<padding = 8>, stages = 2>} ins(%a, %b : tensor<64x64xf16>, tensor<64x64xf16>) outs(%c : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
