// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// DOT-08: UDot and UDotAccSat take and give Signedness 0.

%v, %u, %i = "test.op"() : () -> (vector<4xi8>, vector<4xui8>, i32)
%0 = spirv.UDot %v, %v : vector<4xi8> -> i32
%1 = spirv.UDot %u, %u : vector<4xui8> -> ui32
%2 = spirv.UDotAccSat %u, %u, %i : vector<4xui8> -> i32
// CHECK: spirv.UDot %v, %v : vector<4xi8> -> i32
// CHECK: spirv.UDot %u, %u : vector<4xui8> -> ui32
// CHECK: spirv.UDotAccSat %u, %u, %i : vector<4xui8> -> i32
// CHECK-NOT: DOT-08:
// CHECK: {{^//}} -----

// -----

// The signedness of components matters, not that of a packed scalar, which may be signed.
%p = "test.op"() : () -> (si32)
%0 = spirv.UDot %p, %p, <PackedVectorFormat4x8Bit> : si32 -> i32
// CHECK: spirv.UDot %p, %p, <PackedVectorFormat4x8Bit> : si32 -> i32
// CHECK-NOT: DOT-08:
// CHECK: {{^//}} -----

// -----

%v = "test.op"() : () -> (vector<4xi8>)
%0 = spirv.UDot %v, %v : vector<4xi8> -> si32
// CHECK: DOT-08: the result of an unsigned dot product must have Signedness 0, not si32

// -----

%s = "test.op"() : () -> (vector<4xsi8>)
%0 = spirv.UDot %s, %s : vector<4xsi8> -> i32
// CHECK: DOT-08: components of an unsigned dot product must have Signedness 0, unlike vector<4xsi8>

// -----

%s, %i = "test.op"() : () -> (vector<4xsi8>, i32)
%0 = spirv.UDotAccSat %s, %s, %i : vector<4xsi8> -> i32
// CHECK: DOT-08: components of an unsigned dot product must have Signedness 0
