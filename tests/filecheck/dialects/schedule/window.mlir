// RUN: XDSL_ROUNDTRIP

// CHECK: "test.op"() {schedule = #schedule.window<outputs = 4, subgroups = 2>} : () -> ()
"test.op"() {schedule = #schedule.window<subgroups = 2, outputs = 4>} : () -> ()
