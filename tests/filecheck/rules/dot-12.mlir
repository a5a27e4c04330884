// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// DOT-12: vector operands carry no Packed Vector Format.

%v = "test.op"() : () -> (vector<4xi8>)
%0 = spirv.SDot %v, %v : vector<4xi8> -> i32
// CHECK: spirv.SDot %v, %v : vector<4xi8> -> i32
// CHECK-NOT: DOT-12:
// CHECK: {{^//}} -----

// -----

%v = "test.op"() : () -> (vector<4xi8>)
%0 = spirv.SDot %v, %v, <PackedVectorFormat4x8Bit> : vector<4xi8> -> i32
// CHECK: DOT-12: operands of type vector<4xi8> are not packed, but a Packed Vector Format is given; remove the format

// -----

%v, %i = "test.op"() : () -> (vector<4xi8>, i32)
%0 = spirv.SUDotAccSat %v, %v, %i, <PackedVectorFormat4x8Bit> : vector<4xi8> -> i32
// CHECK: DOT-12: operands of type vector<4xi8> are not packed
