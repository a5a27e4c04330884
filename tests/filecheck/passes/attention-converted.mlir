// RUN: xdsl-opt %s --split-input-file -p 'assign-schedule{target=nvidia-h200},pack-operands,outline-dispatches,attention-to-cooperative-matrix' | filecheck %s

// Matrix instructions reduce rows, compute powers and convert probabilities, without memory in between.
// CHECK-LABEL: sym_name = "pack_37x16", gpu
// CHECK-NOT:   memref.alloc
// CHECK:       scf.for %tile
// CHECK:         spirv.KHR.CooperativeMatrixMulAdd
// Reduces two fragments to their maximum, then each row to its maximum.
// CHECK:         schedule.each_element
// CHECK:         arith.maxnumf
// CHECK:         schedule.reduce_rows
// CHECK:         arith.maxnumf
// CHECK:         schedule.each_element
// CHECK:         math.exp2
// CHECK:         %[[POWERS:[0-9]+]] = schedule.each_element
// CHECK:         math.fma
// CHECK:         math.exp2
// CHECK:         spirv.FConvert %[[POWERS]] : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT:     spirv.KHR.CooperativeMatrixStore
// CHECK:         spirv.KHR.CooperativeMatrixMulAdd
// CHECK:       scf.for %tile
// Masks scores by row and column.
// CHECK:         schedule.each_element
// CHECK-NEXT:    ^bb0(%row: index, %column: index, %{{.*}}: f32, %{{.*}}: index
// CHECK:         arith.cmpi sgt
// CHECK:         arith.select
// CHECK:       schedule.reduce_rows
// CHECK:       arith.addf
// Stores the elements that are inside the result.
// CHECK:       schedule.each_element
// CHECK-NEXT:  ^bb0(%row: index, %column: index
// CHECK:         scf.if
// CHECK:           memref.store
func.func @main(%Q: tensor<2x37x16xf16>, %K: tensor<2x45x16xf16>, %V: tensor<2x45x16xf16>) -> tensor<2x37x16xf16> {
  %r = schedule.dispatch(%Q, %K, %V) : (tensor<2x37x16xf16>, tensor<2x45x16xf16>, tensor<2x45x16xf16>) -> tensor<2x37x16xf16> {
  ^bb0(%q: tensor<2x37x16xf16>, %k: tensor<2x45x16xf16>, %v: tensor<2x45x16xf16>):
    %e = tensor.empty() : tensor<2x37x16xf16>
    %o = schedule.attention %q, %k, %v into %e loops = [2, 37, 45, 16, 16] maps = [affine_map<(b, m, n, d, e) -> (b, m, d)>, affine_map<(b, m, n, d, e) -> (b, n, d)>, affine_map<(b, m, n, d, e) -> (b, n, e)>, affine_map<(b, m, n, d, e) -> (b, m, e)>] scale = 2.500000e-01 causal = 8 {schedule = #schedule.attention<query_tile = 32, key_tile = 32, subgroups = 2, instruction = coopmat 16x16x16, rescale = always, probabilities = converted>} : tensor<2x37x16xf16>, tensor<2x45x16xf16>, tensor<2x45x16xf16> into tensor<2x37x16xf16> -> tensor<2x37x16xf16>
    schedule.yield %o : tensor<2x37x16xf16>
  }
  func.return %r : tensor<2x37x16xf16>
}
