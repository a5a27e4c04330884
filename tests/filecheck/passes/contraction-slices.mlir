// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe},pack-operands,outline-dispatches,contraction-to-cooperative-matrix' | filecheck %s

// Each of four subgroups multiplies a slice of every K tile. Then each slice's subgroup adds up one
// of the fragments from the partial sums in Workgroup memory. B is loaded two instructions ahead.
func.func @main(%A : tensor<8x128xf16>, %B : tensor<128x16xf16>) -> tensor<8x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %r = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 16, 64], subgroups = [1, 1, 4], instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 8>, b = direct<ahead = 2>>} ins(%A, %B : tensor<8x128xf16>, tensor<128x16xf16>) outs(%f : tensor<8x16xf32>) -> tensor<8x16xf32>
  func.return %r : tensor<8x16xf32>
}

// CHECK:      %partial_sums = memref.alloc() : memref<6x8x8xf32, #spirv.storage_class<Workgroup>>
// CHECK:      memref.load %b_fragments[
// CHECK:      scf.for %k =
// CHECK-COUNT-4: spirv.KHR.CooperativeMatrixMulAdd
// CHECK-NOT:  spirv.KHR.CooperativeMatrixMulAdd
// CHECK:      scf.yield
// CHECK:      scf.if
// CHECK:      spirv.KHR.CooperativeMatrixStore {{.*}} : !spirv.ptr<f32, Workgroup>
// CHECK:      scf.if
// CHECK:      spirv.KHR.CooperativeMatrixStore {{.*}} : !spirv.ptr<f32, Workgroup>
// CHECK:      "gpu.barrier"
// CHECK-COUNT-3: spirv.FAdd
// CHECK:      spirv.KHR.CooperativeMatrixStore {{.*}} : !spirv.ptr<f32, StorageBuffer>
// CHECK-COUNT-3: spirv.FAdd
// CHECK:      spirv.KHR.CooperativeMatrixStore {{.*}} : !spirv.ptr<f32, StorageBuffer>

// Eight slices have one fragment. Its part inside of the result
// is stored through the memory from which its sums were read.
func.func @few(%A : tensor<5x128xf16>, %B : tensor<128x8xf16>) -> tensor<5x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<5x8xf32>) -> tensor<5x8xf32>
  %r = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 8, 64], subgroups = [1, 1, 8], instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 8>, b = direct>} ins(%A, %B : tensor<5x128xf16>, tensor<128x8xf16>) outs(%f : tensor<5x8xf32>) -> tensor<5x8xf32>
  func.return %r : tensor<5x8xf32>
}

// CHECK-NOT:  %scratch
// CHECK:      %partial_sums{{.*}} = memref.alloc() : memref<56x8xf32, #spirv.storage_class<Workgroup>>
// CHECK-NOT:  %scratch
// CHECK-COUNT-7: spirv.FAdd
// CHECK:      spirv.ControlBarrier <Subgroup>
// CHECK:      spirv.KHR.CooperativeMatrixStore {{.*}} : !spirv.ptr<f32, Workgroup>
// CHECK:      spirv.ControlBarrier <Subgroup>
// CHECK:      memref.load %partial_sums
// CHECK-NOT:  spirv.KHR.CooperativeMatrixStore
