// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// CHECK: workgroup_tile M = 24 is not a multiple of 16 (subgroups x instruction): 16 would be
"test.op"() {schedule = #schedule.contraction<workgroup_tile = [24, 16, 8], subgroups = [2, 1], instruction = coopmat 8x8x8, a = staged<>, b = staged<>>} : () -> ()

// -----

// CHECK: a schedule needs instruction, b
"test.op"() {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], a = staged<>>} : () -> ()

// -----

// CHECK: 'wmma' is not one of coopmat
"test.op"() {schedule = #schedule.instruction<wmma 8x8x8>} : () -> ()

// -----

// CHECK: expected 3 integers, found 2
"test.op"() {schedule = #schedule.contraction<workgroup_tile = [8, 8], subgroups = [1, 1]>} : () -> ()

// -----

// CHECK: vector is 0, must be at least 1
"test.op"() {path = #schedule.staged<vector = 0>} : () -> ()

// -----

// CHECK: padding is -1, must be at least 0
"test.op"() {path = #schedule.staged<padding = -1>} : () -> ()

// -----

// CHECK: rows of memref<4x6xf16> cannot be viewed as rows of memref<4x3xvector<4xf16>>
func.func @view(%m: memref<4x6xf16>) {
  %v = schedule.vector_view %m : memref<4x6xf16> to memref<4x3xvector<4xf16>>
  return
}

// -----

// CHECK: 1 indices for a memref of 2 dimensions
func.func @indices(%m: memref<4x6xf16, #spirv.storage_class<Workgroup>>, %i: index) {
  %p = schedule.element_ptr %m[%i] : memref<4x6xf16, #spirv.storage_class<Workgroup>> -> !spirv.ptr<f16, Workgroup>
  return
}

// -----

// CHECK: !spirv.ptr<f32, Workgroup> does not point to an element of memref<4xf16, #spirv.storage_class<Workgroup>>
func.func @pointee(%m: memref<4xf16, #spirv.storage_class<Workgroup>>, %i: index) {
  %p = schedule.element_ptr %m[%i] : memref<4xf16, #spirv.storage_class<Workgroup>> -> !spirv.ptr<f32, Workgroup>
  return
}
