// RUN: xdsl-opt %s --split-input-file -p 'assign-schedule{target=nvidia-h200},pack-operands,outline-dispatches,attention-to-cooperative-matrix' | filecheck %s

// Probabilities replace scores in registers, without Workgroup memory and barriers.
// CHECK-LABEL: sym_name = "pack_64x512"
// CHECK-NOT:   gpu.barrier
// CHECK-NOT:   memref.alloc
// Queries and keys are loaded in place, 16 bytes at a time.
// CHECK:       memref.load %q_vectors{{.*}}xvector<4xi32>
// The keys of the next tile are prefetched into registers.
// CHECK:       memref.load %k_vectors{{.*}}xvector<4xi32>
// CHECK:       scf.for %tile
// CHECK:         spirv.KHR.CooperativeMatrixMulAdd
// CHECK:         memref.load %k_vectors
// Values are packed, and loaded before the softmax.
// CHECK:         memref.load %v_packed_fragments
// CHECK:         spirv.GroupNonUniformAny <Subgroup>
// CHECK:         scf.if
// The invocations that share a row compute its maximum by rotations.
// CHECK:           spirv.GroupNonUniformShuffleXor <Subgroup>
// CHECK:         } else {
// CHECK:         math.fma
// CHECK:         math.exp2
// CHECK:         arith.truncf
// CHECK:         spirv.CompositeInsert {{.*}}MatrixA>
// CHECK-NOT:     spirv.KHR.CooperativeMatrixStore
// CHECK:         spirv.KHR.CooperativeMatrixMulAdd
// CHECK:       {schedule.keep_loop}
// CHECK:       spirv.KHR.CooperativeMatrixStore {{.*}} <RowMajor>
// CHECK:       sym_name = "attention_16x2048x512x64x64"
func.func @main(%Q: tensor<16x2048x64xf16>, %K: tensor<16x512x64xf16>, %V: tensor<16x512x64xf16>) -> tensor<16x2048x64xf16> {
  %r = schedule.dispatch(%Q, %K, %V) : (tensor<16x2048x64xf16>, tensor<16x512x64xf16>, tensor<16x512x64xf16>) -> tensor<16x2048x64xf16> {
  ^bb0(%q: tensor<16x2048x64xf16>, %k: tensor<16x512x64xf16>, %v: tensor<16x512x64xf16>):
    %e = tensor.empty() : tensor<16x2048x64xf16>
    %o = schedule.attention %q, %k, %v into %e loops = [16, 2048, 512, 64, 64] maps = [affine_map<(b, m, n, d, e) -> (b, m, d)>, affine_map<(b, m, n, d, e) -> (b, n, d)>, affine_map<(b, m, n, d, e) -> (b, n, e)>, affine_map<(b, m, n, d, e) -> (b, m, e)>] scale = 1.250000e-01 {schedule = #schedule.attention<query_tile = 128, key_tile = 32, subgroups = 4, instruction = coopmat 16x16x16, q = vectors, k = vectors, v = direct, probabilities = registers, ahead = keys>} : tensor<16x2048x64xf16>, tensor<16x512x64xf16>, tensor<16x512x64xf16> into tensor<16x2048x64xf16> -> tensor<16x2048x64xf16>
    schedule.yield %o : tensor<16x2048x64xf16>
  }
  func.return %r : tensor<16x2048x64xf16>
}

// -----

// With dynamic sizes nothing is packed, and a mask by index begins where the first row needs it.
// Two subgroups share rows. The second subgroup's part of the keys is merged through memory.
// CHECK-LABEL: func.func @open
// CHECK:       arith.maxsi
// CHECK:       scf.for %tile = %[[part:.*]] to %[[seen:.*]] step %[[two:.*]] iter_args
// CHECK:       arith.remui %[[seen]], %[[two]]
// CHECK:       scf.for %tile_1
// CHECK:         arith.cmpi sgt
// CHECK:         arith.select
// CHECK:       memref.store {{.*}}%of_parts
// CHECK:       gpu.barrier
// CHECK:       memref.load %of_parts
// An invocation holds adjacent elements of a row of the result.
// CHECK:       memref.store {{.*}}%result_vectors{{.*}}xvector<4xf32>
// CHECK:       sym_name = "attention_1xDxDx64x64"
func.func @open(%Q: tensor<?x64xf16>, %K: tensor<?x64xf16>, %past: index) -> tensor<?x64xf32> {
  %zero = arith.constant 0 : index
  %m = tensor.dim %Q, %zero : tensor<?x64xf16>
  %r = schedule.dispatch(%Q, %K, %past) : (tensor<?x64xf16>, tensor<?x64xf16>, index) -> tensor<?x64xf32> {
  ^bb0(%q: tensor<?x64xf16>, %k: tensor<?x64xf16>, %p: index):
    %0 = arith.constant 0 : index
    %rows = tensor.dim %q, %0 : tensor<?x64xf16>
    %keys = tensor.dim %k, %0 : tensor<?x64xf16>
    %e = tensor.empty(%rows) : tensor<?x64xf32>
    %o = schedule.attention %q, %k, %k into %e numbers %rows, %keys, %p loops = [-9223372036854775808, -9223372036854775808, 64, 64] maps = [affine_map<(m, n, d, e) -> (m, d)>, affine_map<(m, n, d, e) -> (n, d)>, affine_map<(m, n, d, e) -> (n, e)>, affine_map<(m, n, d, e) -> (m, e)>] scale = 1.0 causal = -9223372036854775808 : tensor<?x64xf16>, tensor<?x64xf16>, tensor<?x64xf16> into tensor<?x64xf32> -> tensor<?x64xf32>
    schedule.yield %o : tensor<?x64xf32>
  }
  func.return %r : tensor<?x64xf32>
}

// -----

// For long heads, the workgroup copies each tile of keys and values once, between two barriers.
// CHECK-LABEL: kernel = @kernels::@attention_2x256x128x256x256
// CHECK:       %k_tiles = memref.alloc() {{.*}}memref<32x32xvector<4xi32>, {{.*}}Workgroup
// CHECK:       %v_tiles = memref.alloc() {{.*}}memref<16x64xvector<4xi32>, {{.*}}Workgroup
// CHECK:       memref.load %k_vectors
// CHECK:       memref.load %v_vectors
// CHECK:       memref.store {{.*}}, %k_pieces
// CHECK:       scf.for %tile
// CHECK:         gpu.barrier
// Two rows of values are adjacent.
// CHECK:         memref.store {{.*}}, %v_pieces
// CHECK:         memref.load %k_vectors
// CHECK:         memref.load %k_pieces
// CHECK:         spirv.KHR.CooperativeMatrixMulAdd
// CHECK:         gpu.barrier
// CHECK-NEXT:    memref.store {{.*}}, %k_pieces
// CHECK:         memref.load %v_vectors
// CHECK:         memref.load %v_pieces
// CHECK:         spirv.KHR.CooperativeMatrixMulAdd
// CHECK-NOT:     gpu.barrier
// CHECK:       {schedule.keep_loop}
func.func @main(%Q: tensor<2x256x256xf16>, %K: tensor<2x128x256xf16>, %V: tensor<2x128x256xf16>) -> tensor<2x256x256xf16> {
  %r = schedule.dispatch(%Q, %K, %V) : (tensor<2x256x256xf16>, tensor<2x128x256xf16>, tensor<2x128x256xf16>) -> tensor<2x256x256xf16> {
  ^bb0(%q: tensor<2x256x256xf16>, %k: tensor<2x128x256xf16>, %v: tensor<2x128x256xf16>):
    %e = tensor.empty() : tensor<2x256x256xf16>
    %o = schedule.attention %q, %k, %v into %e loops = [2, 256, 128, 256, 256] maps = [affine_map<(b, m, n, d, e) -> (b, m, d)>, affine_map<(b, m, n, d, e) -> (b, n, d)>, affine_map<(b, m, n, d, e) -> (b, n, e)>, affine_map<(b, m, n, d, e) -> (b, m, e)>] scale = 6.250000e-02 {schedule = #schedule.attention<query_tile = 128, key_tile = 32, subgroups = 8, instruction = coopmat 16x16x16, q = vectors, k = staged, v = staged, probabilities = registers, ahead = keys>} : tensor<2x256x256xf16>, tensor<2x128x256xf16>, tensor<2x128x256xf16> into tensor<2x256x256xf16> -> tensor<2x256x256xf16>
    schedule.yield %o : tensor<2x256x256xf16>
  }
  func.return %r : tensor<2x256x256xf16>
}
