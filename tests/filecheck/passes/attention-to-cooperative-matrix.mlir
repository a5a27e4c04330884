// RUN: xdsl-opt %s --split-input-file -p 'assign-schedule{target=nvidia-h200},pack-operands,outline-dispatches' | filecheck %s
// RUN: xdsl-opt %s --split-input-file -p 'assign-schedule{target=nvidia-h200},pack-operands,outline-dispatches,attention-to-cooperative-matrix' | filecheck %s --check-prefix=KERNEL

// Keys and values are packed. Queries are in place, as cooperative loads can read them there.
// CHECK:      "gpu.launch_func"{{.*}}kernel = @kernels::@pack_64x128
// CHECK:      "gpu.launch_func"{{.*}}kernel = @kernels::@pack_128x64
// CHECK:      "gpu.launch_func"{{.*}}kernel = @kernels::@attention_16x2048x128x64x64
// CHECK:      schedule.pack {{.*}}
// CHECK:      schedule.attention %{{.*}} into %d loops = [16, 2048, 128, 64, 64]
// CHECK-SAME:   schedule = #schedule.attention<query_tile = 128, key_tile = 32, subgroups = 4, instruction = coopmat 16x16x16, q = rows, k = direct, v = direct, rescale = seldom>

// The packing kernel is lowered together with the kernel that reads the packed tensor.
// KERNEL-LABEL: sym_name = "pack_64x128"
// Two strips of queries stay in fragments. The loop carries maxima, sums and results.
// KERNEL:       spirv.KHR.CooperativeMatrixLoad {{.*}}, <RowMajor> {{.*}}MatrixA>
// KERNEL:       scf.for %tile
// Scores.
// KERNEL:         spirv.KHR.CooperativeMatrixMulAdd
// A row's maximum is computed again only if a score exceeds it.
// KERNEL:         spirv.GroupNonUniformAny <Subgroup>
// KERNEL:         scf.if
// KERNEL:           spirv.KHR.CooperativeMatrixStore {{.*}}, <ColumnMajor>, <NonPrivatePointer>
// KERNEL:           spirv.ControlBarrier <Subgroup>, <Subgroup>
// KERNEL:           arith.maxnumf
// KERNEL:           spirv.KHR.CooperativeMatrixLoad {{.*}}, <ColumnMajor>, <NonPrivatePointer>
// KERNEL:           math.exp2
// KERNEL:           arith.mulf
// Powers are stored to Workgroup memory in 16 bits.
// KERNEL:         math.fma
// KERNEL:         math.exp2
// KERNEL:         arith.addf
// KERNEL:         spirv.FConvert {{.*}}xf32, Subgroup, MatrixAcc> to {{.*}}xf16, Subgroup, MatrixAcc>
// KERNEL:         spirv.KHR.CooperativeMatrixStore
// KERNEL:         spirv.ControlBarrier <Subgroup>, <Subgroup>
// Values.
// KERNEL:         spirv.KHR.CooperativeMatrixLoad {{.*}}MatrixA>
// KERNEL:         spirv.KHR.CooperativeMatrixMulAdd
// KERNEL:         scf.yield
// KERNEL-NOT:     "gpu.barrier"
// KERNEL:       sym_name = "attention_16x2048x128x64x64"
func.func @main(%Q: tensor<16x2048x64xf16>, %K: tensor<16x128x64xf16>, %V: tensor<16x128x64xf16>) -> tensor<16x2048x64xf16> {
  %r = schedule.dispatch(%Q, %K, %V) : (tensor<16x2048x64xf16>, tensor<16x128x64xf16>, tensor<16x128x64xf16>) -> tensor<16x2048x64xf16> {
  ^bb0(%q: tensor<16x2048x64xf16>, %k: tensor<16x128x64xf16>, %v: tensor<16x128x64xf16>):
    %e = tensor.empty() : tensor<16x2048x64xf16>
    %o = schedule.attention %q, %k, %v into %e loops = [16, 2048, 128, 64, 64] maps = [affine_map<(b, m, n, d, e) -> (b, m, d)>, affine_map<(b, m, n, d, e) -> (b, n, d)>, affine_map<(b, m, n, d, e) -> (b, n, e)>, affine_map<(b, m, n, d, e) -> (b, m, e)>] scale = 1.250000e-01 {schedule = #schedule.attention<query_tile = 128, key_tile = 32, subgroups = 4, instruction = coopmat 16x16x16, q = rows, k = direct, v = direct, rescale = seldom>} : tensor<16x2048x64xf16>, tensor<16x128x64xf16>, tensor<16x128x64xf16> into tensor<16x2048x64xf16> -> tensor<16x2048x64xf16>
    schedule.yield %o : tensor<16x2048x64xf16>
  }
  func.return %r : tensor<16x2048x64xf16>
}

// -----

// bf16 is stored as bits of f16. The rows of a subgroup determine which tile the mask cuts.
// KERNEL:       scf.for %tile = %{{.*}} to %[[seen:.*]] step
// KERNEL:         spirv.Bitcast {{.*}} : bf16 to f16
// KERNEL:       scf.for %tile_1 = %[[seen]] to
// KERNEL:         arith.cmpi sgt
// KERNEL:         arith.select
func.func @causal(%Q: tensor<256x32xbf16>, %V: tensor<256x32xbf16>) -> tensor<256x32xf32> {
  %r = schedule.dispatch(%Q, %V) : (tensor<256x32xbf16>, tensor<256x32xbf16>) -> tensor<256x32xf32> {
  ^bb0(%q: tensor<256x32xbf16>, %v: tensor<256x32xbf16>):
    %e = tensor.empty() : tensor<256x32xf32>
    %o = schedule.attention %q, %q, %v into %e loops = [256, 256, 32, 32] maps = [affine_map<(m, n, d, e) -> (m, d)>, affine_map<(m, n, d, e) -> (n, d)>, affine_map<(m, n, d, e) -> (n, e)>, affine_map<(m, n, d, e) -> (m, e)>] scale = 1.0 causal = 0 {schedule = #schedule.attention<query_tile = 64, key_tile = 64, subgroups = 4, instruction = coopmat 16x16x16, q = rows, k = direct, v = direct>} : tensor<256x32xbf16>, tensor<256x32xbf16>, tensor<256x32xbf16> into tensor<256x32xf32> -> tensor<256x32xf32>
    schedule.yield %o : tensor<256x32xf32>
  }
  func.return %r : tensor<256x32xf32>
}
