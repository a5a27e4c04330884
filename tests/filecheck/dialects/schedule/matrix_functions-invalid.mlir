// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

// CHECK: the function of schedule.each_element must take index, index, f32, index
func.func @f(%m: !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>, %i: index) {
  %0 = schedule.each_element %m(%i) : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>(index) -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> {
  ^bb0(%row: index, %column: index, %x: f32):
    schedule.yield %x : f32
  }
  func.return
}

// -----

// CHECK: schedule.each_element must end with a schedule.yield of one f32
func.func @f(%m: !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>) {
  %0 = schedule.each_element %m() : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>() -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> {
  ^bb0(%row: index, %column: index, %x: f32):
    schedule.yield %row : index
  }
  func.return
}

// -----

// CHECK: expected from variable 'T', but got !spirv.coopmatrix<8x8xf16, Subgroup, MatrixAcc>
func.func @f(%m: !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>) {
  %0 = schedule.each_element %m() : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>() -> !spirv.coopmatrix<8x8xf16, Subgroup, MatrixAcc> {
  ^bb0(%row: index, %column: index, %x: f32):
    schedule.yield %x : f32
  }
  func.return
}

// -----

// CHECK: the function of schedule.reduce_rows must take f32, f32
func.func @f(%m: !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>) {
  %0 = schedule.reduce_rows %m : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> {
  ^bb0(%x: f32):
    schedule.yield %x : f32
  }
  func.return
}

// -----

// CHECK: expected from variable 'T', but got !spirv.coopmatrix<8x8xf32, Subgroup, MatrixA>
func.func @f(%m: !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>) {
  %0 = schedule.reduce_rows %m : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixA> {
  ^bb0(%x: f32, %y: f32):
    schedule.yield %x : f32
  }
  func.return
}

// -----

// CHECK: probabilities is turned, not one of memory, registers, converted
"test.op"() {schedule = #schedule.attention<query_tile = 16, key_tile = 8, subgroups = 2, instruction = coopmat 8x8x8, probabilities = turned>} : () -> ()

// -----

// CHECK: ahead = keys needs probabilities = registers
"test.op"() {schedule = #schedule.attention<query_tile = 16, key_tile = 8, subgroups = 2, instruction = coopmat 8x8x8, probabilities = converted, ahead = keys>} : () -> ()
