// RUN: XDSL_ROUNDTRIP

func.func @f(%m: !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>, %n: !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>, %b: memref<64xf32, #spirv.storage_class<StorageBuffer>>, %i: index) {
  %0 = schedule.reduce_rows %m : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> {
  ^bb0(%x: f32, %y: f32):
    %z = arith.maxnumf %x, %y : f32
    schedule.yield %z : f32
  }
  %1 = schedule.each_element %m(%n, %b, %i) : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>(!spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>, memref<64xf32, #spirv.storage_class<StorageBuffer>>, index) -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> {
  ^bb0(%row: index, %column: index, %x: f32, %y: f32, %memory: memref<64xf32, #spirv.storage_class<StorageBuffer>>, %first: index):
    %z = arith.addf %x, %y : f32
    memref.store %z, %memory[%first] : memref<64xf32, #spirv.storage_class<StorageBuffer>>
    schedule.yield %z : f32
  }
  %2 = schedule.each_element %m() : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>() -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> {
  ^bb0(%row: index, %column: index, %x: f32):
    schedule.yield %x : f32
  }
  func.return
}

// CHECK:      func.func @f(%m: !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>, %n: !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>, %b: memref<64xf32, #spirv.storage_class<StorageBuffer>>, %i: index) {
// CHECK-NEXT:   %0 = schedule.reduce_rows %m : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> {
// CHECK-NEXT:   ^bb0(%x: f32, %y: f32):
// CHECK-NEXT:     %z = arith.maxnumf %x, %y : f32
// CHECK-NEXT:     schedule.yield %z : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %1 = schedule.each_element %m(%n, %b, %i) : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>(!spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>, memref<64xf32, #spirv.storage_class<StorageBuffer>>, index) -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> {
// CHECK-NEXT:   ^bb0(%row: index, %column: index, %x: f32, %y: f32, %memory: memref<64xf32, #spirv.storage_class<StorageBuffer>>, %first: index):
// CHECK-NEXT:     %z = arith.addf %x, %y : f32
// CHECK-NEXT:     memref.store %z, %memory[%first] : memref<64xf32, #spirv.storage_class<StorageBuffer>>
// CHECK-NEXT:     schedule.yield %z : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   %2 = schedule.each_element %m() : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>() -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> {
// CHECK-NEXT:   ^bb0(%row: index, %column: index, %x: f32):
// CHECK-NEXT:     schedule.yield %x : f32
// CHECK-NEXT:   }
