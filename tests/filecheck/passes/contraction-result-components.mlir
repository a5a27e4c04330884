// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe},pack-operands,outline-dispatches,contraction-to-cooperative-matrix' | filecheck %s

// The second of two fragments reaches beyond the result. Its components
// inside of the result are stored one by one, without Workgroup memory.
func.func @main(%A : tensor<8x8xf16>, %B : tensor<8x12xf16>) -> tensor<8x12xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x12xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x12xf32>) -> tensor<8x12xf32>
  %r = linalg.matmul {schedule = #schedule.contraction<workgroup_tile = [8, 16, 8], subgroups = [1, 1], instruction = coopmat 8x8x8, a = direct, b = direct, result = components>} ins(%A, %B : tensor<8x8xf16>, tensor<8x12xf16>) outs(%f : tensor<8x12xf32>) -> tensor<8x12xf32>
  func.return %r : tensor<8x12xf32>
}

// CHECK:      "gpu.func"() <{function_type = (memref<1x1x1x64xf16, {{.*}}memref<8x12xf32
// CHECK-NOT:  memref.alloc
// CHECK:      %[[SUM:[0-9]+]] = spirv.KHR.CooperativeMatrixMulAdd
// CHECK-NEXT: %[[LAST:[0-9]+]] = spirv.KHR.CooperativeMatrixMulAdd
// CHECK:      scf.if
// CHECK:      } else {
// CHECK:      spirv.KHR.CooperativeMatrixStore %{{.*}}, %[[LAST]],
// CHECK:      } else {
// CHECK:      %[[COMPONENT:[0-9]+]] = spirv.CompositeExtract %[[LAST]][0 : i32]
// CHECK:      scf.if
// CHECK-NEXT:   %[[ROW:[0-9]+]] = arith.muli
// CHECK-NEXT:   %[[AT:[0-9]+]] = arith.addi %[[ROW]],
// CHECK-NEXT:   memref.store %[[COMPONENT]], %d_elements[%[[AT]]]
