// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// DOT-09: both vectors of an S or U form have the same type.

%s, %v = "test.op"() : () -> (vector<4xsi8>, vector<4xi8>)
%0 = spirv.SDot %s, %s : vector<4xsi8> -> si32
%1 = spirv.UDot %v, %v : vector<4xi8> -> i32
// CHECK: spirv.SDot %s, %s : vector<4xsi8> -> si32
// CHECK: spirv.UDot %v, %v : vector<4xi8> -> i32
// CHECK-NOT: DOT-09:
// CHECK: {{^//}} -----

// -----

%s, %v = "test.op"() : () -> (vector<4xsi8>, vector<4xi8>)
%0 = spirv.SDot %s, %v : vector<4xsi8>, vector<4xi8> -> i32
// CHECK: DOT-09: both vectors must have the same type, not vector<4xsi8> and vector<4xi8>; bitcast one vector, or use the SU form

// -----

%v, %w = "test.op"() : () -> (vector<4xi8>, vector<3xi8>)
%0 = spirv.UDot %v, %w : vector<4xi8>, vector<3xi8> -> i32
// CHECK: DOT-09: both vectors must have the same type, not vector<4xi8> and vector<3xi8>

// -----

%v, %u, %i = "test.op"() : () -> (vector<4xi8>, vector<4xui8>, i32)
%0 = spirv.SDotAccSat %v, %u, %i : vector<4xi8>, vector<4xui8> -> i32
// CHECK: DOT-09: both vectors must have the same type
