// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// DOT-07: the result is an integer scalar at least as wide as the components.

%v = "test.op"() : () -> (vector<4xi8>)
%0 = spirv.SDot %v, %v : vector<4xi8> -> i8
%1 = spirv.UDot %v, %v : vector<4xi8> -> i16
%2 = spirv.SUDot %v, %v : vector<4xi8> -> i64
// CHECK: spirv.SDot %v, %v : vector<4xi8> -> i8
// CHECK: spirv.UDot %v, %v : vector<4xi8> -> i16
// CHECK: spirv.SUDot %v, %v : vector<4xi8> -> i64
// CHECK-NOT: DOT-07:
// CHECK: {{^//}} -----

// -----

%i = "test.op"() : () -> (i32)
%0 = spirv.SDot %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i8
// CHECK: spirv.SDot %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i8
// CHECK-NOT: DOT-07:
// CHECK: {{^//}} -----

// -----

%w = "test.op"() : () -> (vector<3xi16>)
%0 = spirv.SDot %w, %w : vector<3xi16> -> i32
// CHECK: spirv.SDot %w, %w : vector<3xi16> -> i32
// CHECK-NOT: DOT-07:
// CHECK: {{^//}} -----

// -----

%w = "test.op"() : () -> (vector<2xi16>)
%0 = spirv.SDot %w, %w : vector<2xi16> -> i8
// CHECK: DOT-07: the result i8 is narrower than the 16-bit components of vector<2xi16>; use an integer type of at least 16 bits

// -----

%v = "test.op"() : () -> (vector<4xi8>)
%0 = spirv.UDot %v, %v : vector<4xi8> -> f32
// CHECK: DOT-07: the result of an integer dot product must be an integer scalar, not f32

// -----

%v = "test.op"() : () -> (vector<4xi8>)
%0 = spirv.SDot %v, %v : vector<4xi8> -> vector<4xi32>
// CHECK: DOT-07: the result of an integer dot product must be an integer scalar, not vector<4xi32>

// -----

%v, %a = "test.op"() : () -> (vector<4xi8>, i4)
%0 = spirv.SDotAccSat %v, %v, %a : vector<4xi8> -> i4
// CHECK: DOT-07: the result i4 is narrower than the 8-bit components
