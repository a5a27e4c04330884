// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe},pack-operands' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe},pack-operands,outline-dispatches,contraction-to-cooperative-matrix' | filecheck %s --check-prefix=KERNEL

// B has rows of 70 bytes across K. It is packed into panels: K tiles of 16, each with 48 rows in order.
// CHECK:      %[[packed:.*]] = schedule.dispatch(%B) : (tensor<50x35xf16>) -> tensor<1x4x48x16xf16>
// CHECK:        schedule.pack %{{.*}} into %{{.*}} by <B, fragment = [1, 16], tile = [16, 16], map = affine_map<(d0, d1) -> (d1, d0)>, sizes = [35, 50], groups = [0, 1, 1]>
// CHECK:      schedule.dispatch(%A, %[[packed]])
// CHECK:        %[[view:.*]] = schedule.packed_view %{{.*}} by <B, {{.*}}> : tensor<1x4x48x16xf16> to tensor<50x35xf16>
// CHECK:        linalg.generic {{.*}} ins(%{{.*}}, %[[view]] :

// A workgroup transposes 16 rows in Workgroup memory: it stores single elements, and loads vectors of 16 bytes.
// KERNEL-LABEL: "gpu.func"
// KERNEL:       memref.store %{{.*}}, %{{.*}}_tile_elements[{{.*}}] : memref<384xf16, #spirv.storage_class<Workgroup>>
// KERNEL:       "gpu.barrier"
// KERNEL:       spirv.CompositeConstruct {{.*}} : (f16, f16) -> vector<2xf16>
// KERNEL:       %[[words:.*]] = spirv.CompositeConstruct {{.*}} : (i32, i32, i32, i32) -> vector<4xi32>
// KERNEL:       memref.store %[[words]], %panels

// The contraction stages panels without bounds checks, in two buffers.
// KERNEL-LABEL: "gpu.func"
// KERNEL:       scf.for %k
// KERNEL:         memref.load %{{.*}} : memref<384xvector<4xi32>, #spirv.storage_class<StorageBuffer>>

// KERNEL:         spirv.KHR.CooperativeMatrixLoad {{.*}} <ColumnMajor>, {{.*}} -> !spirv.coopmatrix<8x8xf16, Subgroup, MatrixB>
func.func @main(%A : tensor<40x50xf16>, %B : tensor<50x35xf16>) -> tensor<40x35xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x35xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<40x35xf32>) -> tensor<40x35xf32>
  %r = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [32, 16, 16], subgroups = [2, 2], instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 2, buffers = 2>, b = staged<padding = 8, vector = 8, buffers = 2, layout = panels>, stages = 2>} ins(%A, %B : tensor<40x50xf16>, tensor<50x35xf16>) outs(%f : tensor<40x35xf32>) -> tensor<40x35xf32>
  func.return %r : tensor<40x35xf32>
}
