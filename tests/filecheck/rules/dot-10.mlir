// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// DOT-10: the SU forms take two 32-bit scalars, or two vectors of equal length and component width,
// the second of Signedness 0.

%s, %u, %v, %i = "test.op"() : () -> (vector<4xsi8>, vector<4xui8>, vector<4xi8>, i32)
%0 = spirv.SUDot %s, %u : vector<4xsi8>, vector<4xui8> -> i32
%1 = spirv.SUDot %v, %v : vector<4xi8> -> i32
%2 = spirv.SUDotAccSat %s, %v, %i : vector<4xsi8>, vector<4xi8> -> i32
// CHECK: spirv.SUDot %s, %u : vector<4xsi8>, vector<4xui8> -> i32
// CHECK: spirv.SUDot %v, %v : vector<4xi8> -> i32
// CHECK: spirv.SUDotAccSat %s, %v, %i : vector<4xsi8>, vector<4xi8> -> i32
// CHECK-NOT: DOT-10:
// CHECK: {{^//}} -----

// -----

%p, %i = "test.op"() : () -> (si32, i32)
%0 = spirv.SUDot %p, %i, <PackedVectorFormat4x8Bit> : si32, i32 -> i32
// CHECK: spirv.SUDot %p, %i, <PackedVectorFormat4x8Bit> : si32, i32 -> i32
// CHECK-NOT: DOT-10:
// CHECK: {{^//}} -----

// -----

%v, %s = "test.op"() : () -> (vector<4xi8>, vector<4xsi8>)
%0 = spirv.SUDot %v, %s : vector<4xi8>, vector<4xsi8> -> i32
// CHECK: DOT-10: the components of Vector 2 must have Signedness 0, unlike vector<4xsi8>; use signless or unsigned components, or swap the operands

// -----

%s = "test.op"() : () -> (vector<4xsi8>)
%0 = spirv.SUDot %s, %s : vector<4xsi8> -> i32
// CHECK: DOT-10: the components of Vector 2 must have Signedness 0

// -----

%v, %w = "test.op"() : () -> (vector<4xi8>, vector<4xi16>)
%0 = spirv.SUDot %v, %w : vector<4xi8>, vector<4xi16> -> i32
// CHECK: DOT-10: the vectors vector<4xi8> and vector<4xi16> must have equal length and component width

// -----

%v, %w, %i = "test.op"() : () -> (vector<4xi8>, vector<3xi8>, i32)
%0 = spirv.SUDotAccSat %v, %w, %i : vector<4xi8>, vector<3xi8> -> i32
// CHECK: DOT-10: the vectors vector<4xi8> and vector<3xi8> must have equal length and component width

// -----

%v, %i = "test.op"() : () -> (vector<4xi8>, i32)
%0 = spirv.SUDot %v, %i : vector<4xi8>, i32 -> i32
// CHECK: DOT-10: operands must be two 32-bit scalars or two vectors, not vector<4xi8> and i32
