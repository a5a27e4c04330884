// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// CHECK: a schedule needs subgroups
"test.op"() {schedule = #schedule.window<outputs = 4>} : () -> ()

// -----

// CHECK: 'rows' is not one of outputs, subgroups
"test.op"() {schedule = #schedule.window<rows = 4>} : () -> ()

// -----

// CHECK: outputs and subgroups must be positive
"test.op"() {schedule = #schedule.window<outputs = 0, subgroups = 1>} : () -> ()
