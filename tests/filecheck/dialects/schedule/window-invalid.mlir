// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// CHECK: schedule.window needs subgroups
"test.op"() {schedule = #schedule.window<outputs = 4>} : () -> ()

// -----

// CHECK: schedule.window: 'rows' is not one of outputs, subgroups
"test.op"() {schedule = #schedule.window<rows = 4>} : () -> ()

// -----

// CHECK: outputs must be at least 1, not 0
"test.op"() {schedule = #schedule.window<outputs = 0, subgroups = 1>} : () -> ()
