// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// DOT-13: the accumulator of an AccSat form has the Result Type.

%v, %l, %j = "test.op"() : () -> (vector<4xi8>, i64, si32)
%0 = spirv.SDotAccSat %v, %v, %l : vector<4xi8> -> i64
%1 = spirv.SUDotAccSat %v, %v, %j : vector<4xi8> -> si32
// CHECK: spirv.SDotAccSat %v, %v, %l : vector<4xi8> -> i64
// CHECK: spirv.SUDotAccSat %v, %v, %j : vector<4xi8> -> si32
// CHECK-NOT: DOT-13:
// CHECK: {{^//}} -----

// -----

%v, %i = "test.op"() : () -> (vector<4xi8>, i32)
%0 = "spirv.SDotAccSat"(%v, %v, %i) : (vector<4xi8>, vector<4xi8>, i32) -> i64
// CHECK: DOT-13: the accumulator must have the type of the result i64, not i32; convert the accumulator

// -----

%v, %i = "test.op"() : () -> (vector<4xi8>, i32)
%0 = "spirv.UDotAccSat"(%v, %v, %i) : (vector<4xi8>, vector<4xi8>, i32) -> ui32
// CHECK: DOT-13: the accumulator must have the type of the result ui32, not i32
