// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe},pack-operands,outline-dispatches,contraction-to-cooperative-matrix' | filecheck %s

// A's fragments pass through Workgroup memory in order. The result passes through it in
// strips of 8 rows, each of two fragments and a vector of padding, and is stored as vectors.
func.func @main(%A : tensor<16x16xf16>, %B : tensor<16x32xf16>) -> tensor<16x32xf16> {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<16x32xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<16x32xf16>) -> tensor<16x32xf16>
  %r = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [16, 32, 16], subgroups = [1, 2], instruction = coopmat 8x8x8, a = staged<vector = 8, layout = fragments>, b = direct, result = rows>} ins(%A, %B : tensor<16x16xf16>, tensor<16x32xf16>) outs(%f : tensor<16x32xf16>) -> tensor<16x32xf16>
  func.return %r : tensor<16x32xf16>
}

// CHECK:      "gpu.func"() <{function_type = (memref<1x2x2x64xf16, #spirv.storage_class<StorageBuffer>>
// CHECK:      memref.alloc() : memref<16x3xvector<4xi32>, #spirv.storage_class<Workgroup>>
// CHECK:      memref.alloc() : memref<2x16xvector<4xi32>, #spirv.storage_class<Workgroup>>
// CHECK:      "gpu.barrier"
// CHECK:      memref.load %a_tile_elements[
// CHECK:      spirv.CompositeInsert
// CHECK:      spirv.KHR.CooperativeMatrixStore {{.*}} : !spirv.ptr<vector<4xi32>, Workgroup>
// CHECK:      spirv.KHR.CooperativeMatrixStore {{.*}} : !spirv.ptr<vector<4xi32>, Workgroup>
// CHECK:      spirv.ControlBarrier <Subgroup>
// CHECK:      %[[ROW:[0-9]+]] = memref.load %strip_elements[
// CHECK:      memref.store %[[ROW]], %d_elements[{{.*}}] : memref<64xvector<4xi32>, #spirv.storage_class<StorageBuffer>>
// CHECK:      spirv.ControlBarrier <Subgroup>
// CHECK:      spirv.KHR.CooperativeMatrixStore
