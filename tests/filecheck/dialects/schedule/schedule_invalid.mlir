// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// CHECK: workgroup_tile M = 24 is not a multiple of 16 (subgroups x instruction): use 16
"test.op"() {schedule = #schedule.contraction<workgroup_tile = [24, 16, 8], subgroups = [2, 1], instruction = coopmat 8x8x8, a = staged<>, b = staged<>>} : () -> ()

// -----

// CHECK: schedule.contraction needs instruction, b
"test.op"() {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], a = staged<>>} : () -> ()

// -----

// CHECK: 'wmma' is not one of coopmat
"test.op"() {schedule = #schedule.instruction<wmma 8x8x8>} : () -> ()

// -----

// CHECK: workgroup_tile has 2 numbers, must have 3
"test.op"() {schedule = #schedule.contraction<workgroup_tile = [8, 8], subgroups = [1, 1]>} : () -> ()

// -----

// CHECK: schedule.staged: 'vector' is given twice
"test.op"() {path = #schedule.staged<vector = 1, padding = 0, vector = 2>} : () -> ()

// -----

// CHECK: schedule.staged: 'vectors' is not one of padding, vector, buffers, ahead, layout
"test.op"() {path = #schedule.staged<vectors = 2>} : () -> ()

// -----

// CHECK: ahead must be at most 1, not 2
"test.op"() {path = #schedule.staged<ahead = 2>} : () -> ()

// -----

// CHECK: layout is columns, not one of rows, panels, fragments
"test.op"() {path = #schedule.staged<layout = columns>} : () -> ()

// -----

// CHECK: group must be at least 1, not 0
"test.op"() {schedule = #schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<>, b = direct, raster = rows<0>>} : () -> ()

// -----

// CHECK: vector must be at least 1, not 0
"test.op"() {path = #schedule.staged<vector = 0>} : () -> ()

// -----

// CHECK: padding must be at least 0, not -1
"test.op"() {path = #schedule.staged<padding = -1>} : () -> ()

// -----

// CHECK: memref<4x6xf16> and memref<12xvector<4xf16>> must have equal size and memory space
func.func @view(%m: memref<4x6xf16>) {
  %v = schedule.flat_view %m : memref<4x6xf16> to memref<12xvector<4xf16>>
  return
}

// -----

// CHECK: a flat view must have one dimension, not memref<4x6xf16>
func.func @view(%m: memref<4x6xf16>) {
  %v = schedule.flat_view %m : memref<4x6xf16> to memref<4x6xf16>
  return
}

// -----

// CHECK: the padded memref<4x6xf16> must have shape 5x8, not memref<4x8xf16>
func.func @padded(%m: memref<4x6xf16>) {
  %v = schedule.padded_view %m low = [1, 0] high = [0, 2] : memref<4x6xf16> to memref<4x8xf16>
  return
}

// -----

// CHECK: fill has type i16, but must have the element type of memref<4xi8>
func.func @padded(%m: memref<4xi8>) {
  %v = schedule.padded_view %m low = [1] high = [0] fill = 3 : i16 : memref<4xi8> to memref<5xi8>
  return
}

// -----

// CHECK: low and high must have a number for each dimension of memref<4x6xf16>
func.func @padded(%m: memref<4x6xf16>) {
  %v = schedule.padded_view %m low = [1] high = [0, 2] : memref<4x6xf16> to memref<5x8xf16>
  return
}

// -----

// CHECK: a padding cannot be negative
func.func @padded(%m: memref<4x6xf16>) {
  %v = schedule.padded_view %m low = [-1, 0] high = [0, 0] : memref<4x6xf16> to memref<3x6xf16>
  return
}

// -----

// CHECK: 1 indices are given for the 2 dimensions
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
