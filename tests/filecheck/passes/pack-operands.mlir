// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe},pack-operands' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe},pack-operands,outline-dispatches,contraction-to-cooperative-matrix' | filecheck %s --check-prefix=KERNEL

// A separate dispatch packs B, with zeros up to whole tiles. The contraction reads it through a view.
// CHECK:      %[[packed:.*]] = schedule.dispatch(%B) : (tensor<50x36xf16>) -> tensor<1x8x8x64xf16>
// CHECK:        schedule.pack %{{.*}} into %{{.*}} by <B, fragment = [8, 8], tile = [32, 16], map = affine_map<(d0, d1) -> (d1, d0)>, sizes = [36, 50], groups = [0, 1, 1]>
// CHECK:      schedule.dispatch(%A, %[[packed]])
// CHECK:        %[[view:.*]] = schedule.packed_view %{{.*}} by <B, {{.*}}> : tensor<1x8x8x64xf16> to tensor<50x36xf16>
// CHECK:        linalg.generic {{.*}} ins(%{{.*}}, %[[view]] :

// When a subgroup packs, the components of an invocation become one vector.
// KERNEL-LABEL: "gpu.func"
// KERNEL:       %[[fragment:.*]] = spirv.KHR.CooperativeMatrixLoad
// KERNEL:       spirv.CompositeExtract %[[fragment]][0 : i32] : !spirv.coopmatrix<8x8xf16, Subgroup, MatrixB>
// KERNEL:       spirv.CompositeConstruct {{.*}} : (i32, i32, i32, i32) -> vector<4xi32>
// KERNEL:       memref.store

// A's next tile is loaded before the products of the current one. B needs no Workgroup memory.
// KERNEL-LABEL: "gpu.func"
// KERNEL-NOT:   %b_tile
// KERNEL:       memref.load %a_elements
// KERNEL:       scf.for %k
// KERNEL:         memref.load %a_elements
// KERNEL:         "gpu.barrier"
// KERNEL:         memref.store %{{.*}}, %a_tile_elements
// KERNEL:         "gpu.barrier"
// KERNEL:         spirv.CompositeInsert {{.*}} into !spirv.coopmatrix<8x8xf16, Subgroup, MatrixB>
// KERNEL:         spirv.KHR.CooperativeMatrixMulAdd
func.func @main(%A : tensor<40x50xf16>, %B : tensor<50x36xf16>) -> tensor<40x36xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x36xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<40x36xf32>) -> tensor<40x36xf32>
  %r = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [32, 32, 16], subgroups = [2, 2], instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 2>, b = direct, stages = 2>} ins(%A, %B : tensor<40x50xf16>, tensor<50x36xf16>) outs(%f : tensor<40x36xf32>) -> tensor<40x36xf32>
  func.return %r : tensor<40x36xf32>
}
