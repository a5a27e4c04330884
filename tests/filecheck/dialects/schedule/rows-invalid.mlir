// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// CHECK: schedule.rows needs steps, subgroups
"test.op"() {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 32>} : () -> ()

// -----

// CHECK: schedule.rows: 'outputs' is not one of rows, columns, lanes, steps, bytes, groups, ahead, digits, within, subgroups
"test.op"() {schedule = #schedule.rows<outputs = 4>} : () -> ()

// -----

// CHECK: subgroups has 1 numbers, must have 2
"test.op"() {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 1, subgroups = [1]>} : () -> ()

// -----

// CHECK: columns must be at least 1, not 0
"test.op"() {schedule = #schedule.rows<rows = 1, columns = 0, lanes = 32, steps = 1, subgroups = [1, 1]>} : () -> ()

// -----

// CHECK: bytes must be at most 16, not 32
"test.op"() {schedule = #schedule.rows<rows = 1, columns = 1, lanes = 32, steps = 1, bytes = 32, subgroups = [1, 1]>} : () -> ()

// -----

// CHECK: digits must be 0, 2 or 3, not 1
"test.op"() {schedule = #schedule.rows<rows = 1, columns = 1, lanes = 32, steps = 1, digits = 1, subgroups = [1, 1]>} : () -> ()
