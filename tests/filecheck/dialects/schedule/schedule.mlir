// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP

// CHECK: #schedule.contraction<workgroup_tile = [128, 128, 32], subgroups = [2, 2], instruction = coopmat 16x16x16, a = staged<padding = 8, vector = 4>, b = staged<padding = 0, vector = 1>, raster = rows>
"test.op"() {schedule = #schedule.contraction<workgroup_tile = [128, 128, 32], subgroups = [2, 2], instruction = coopmat 16x16x16, a = staged<padding = 8, vector = 4>, b = staged<>>} : () -> ()
// CHECK: a = staged<padding = 8, vector = 8, buffers = 2>, b = staged<padding = 8, vector = 8>, stages = 2, raster = columns>
"test.op"() {schedule = #schedule.contraction<instruction = coopmat 16x8x16, workgroup_tile = [16, 8, 16], subgroups = [1, 1], b = staged<vector = 8, padding = 8>, a = staged<padding = 8, vector = 8, buffers = 2>, raster = columns, stages = 2>} : () -> ()
// CHECK: a = staged<padding = 16, vector = 16, buffers = 2, ahead = 1, layout = panels>, b = staged<padding = 0, vector = 8, layout = fragments>, stages = 3, raster = rows<4>, first = store, result = rows>
"test.op"() {schedule = #schedule.contraction<workgroup_tile = [256, 128, 32], subgroups = [4, 2], instruction = coopmat 16x16x32, a = staged<padding = 16, vector = 16, buffers = 2, ahead = 1, layout = panels>, b = staged<vector = 8, layout = fragments>, stages = 3, raster = rows<4>, result = rows, first = store>} : () -> ()
// CHECK: #schedule.instruction<coopmat 16x8x32>, #schedule.staged<padding = 16, vector = 16>
"test.op"() {parts = [#schedule.instruction<coopmat 16x8x32>, #schedule.staged<padding = 16, vector = 16>]} : () -> ()

func.func @kernel(%m: memref<64x48xf16, #spirv.storage_class<StorageBuffer>>, %i: index) {
  // CHECK: %{{.*}} = schedule.element_ptr %m[%i, %i] : memref<64x48xf16, #spirv.storage_class<StorageBuffer>> -> !spirv.ptr<f16, StorageBuffer>
  // CHECK-GENERIC: "schedule.element_ptr"(%m, %i, %i) : (memref<64x48xf16, #spirv.storage_class<StorageBuffer>>, index, index) -> !spirv.ptr<f16, StorageBuffer>
  %p = schedule.element_ptr %m[%i, %i] : memref<64x48xf16, #spirv.storage_class<StorageBuffer>> -> !spirv.ptr<f16, StorageBuffer>
  // CHECK: %v = schedule.flat_view %m : memref<64x48xf16, #spirv.storage_class<StorageBuffer>> to memref<384xvector<4xi32>, #spirv.storage_class<StorageBuffer>>
  // CHECK-GENERIC: "schedule.flat_view"(%m)
  %v = schedule.flat_view %m : memref<64x48xf16, #spirv.storage_class<StorageBuffer>> to memref<384xvector<4xi32>, #spirv.storage_class<StorageBuffer>>
  // CHECK: %w = schedule.padded_view %m low = [0, 1] high = [2, 0] : memref<64x48xf16, #spirv.storage_class<StorageBuffer>> to memref<66x49xf16, #spirv.storage_class<StorageBuffer>>
  // CHECK-GENERIC: "schedule.padded_view"(%m) <{low = array<i64: 0, 1>, high = array<i64: 2, 0>}>
  %w = schedule.padded_view %m low = [0, 1] high = [2, 0] : memref<64x48xf16, #spirv.storage_class<StorageBuffer>> to memref<66x49xf16, #spirv.storage_class<StorageBuffer>>
  // CHECK: %x = schedule.padded_view %bytes low = [0] high = [2] fill = -11 : i8 : memref<4xi8> to memref<6xi8>
  %bytes = memref.alloc() : memref<4xi8>
  %x = schedule.padded_view %bytes low = [0] high = [2] fill = -11 : i8 : memref<4xi8> to memref<6xi8>
  // CHECK: schedule.collective {
  // CHECK-GENERIC: "schedule.collective"() ({
  schedule.collective {
    %z = arith.constant 0.0 : f16
    linalg.fill ins(%z : f16) outs(%m : memref<64x48xf16, #spirv.storage_class<StorageBuffer>>)
  }
  return
}
