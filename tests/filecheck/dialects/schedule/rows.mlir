// RUN: XDSL_ROUNDTRIP

// CHECK: "test.op"() {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 2, subgroups = [1, 4]>} : () -> ()
"test.op"() {schedule = #schedule.rows<subgroups = [1, 4], columns = 4, rows = 1, lanes = 32, steps = 2>} : () -> ()

// CHECK: "test.op"() {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 2, bytes = 8, subgroups = [1, 4]>} : () -> ()
"test.op"() {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 2, bytes = 8, subgroups = [1, 4]>} : () -> ()

// CHECK: "test.op"() {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 1, groups = 8, subgroups = [4, 1]>} : () -> ()
"test.op"() {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 1, groups = 8, subgroups = [4, 1]>} : () -> ()

// CHECK: "test.op"() {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 1, groups = 8, ahead = 2, subgroups = [4, 1]>} : () -> ()
"test.op"() {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 1, groups = 8, ahead = 2, subgroups = [4, 1]>} : () -> ()

// CHECK: "test.op"() {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 1, digits = 3, subgroups = [4, 1]>} : () -> ()
"test.op"() {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 1, digits = 3, subgroups = [4, 1]>} : () -> ()
