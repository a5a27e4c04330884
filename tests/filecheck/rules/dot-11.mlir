// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// DOT-11: scalar operands are 32 bits wide and need a Packed Vector Format, of which there is one.

%i, %n = "test.op"() : () -> (i32, ui32)
%0 = spirv.SDot %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i32
%1 = spirv.UDotAccSat %n, %n, %i, <PackedVectorFormat4x8Bit> : ui32 -> i32
// CHECK: spirv.SDot %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i32
// CHECK: spirv.UDotAccSat %n, %n, %i, <PackedVectorFormat4x8Bit> : ui32 -> i32
// CHECK-NOT: DOT-11:
// CHECK: {{^//}} -----

// -----

%i = "test.op"() : () -> (i32)
%0 = spirv.SDot %i, %i : i32 -> i32
// CHECK: DOT-11: scalar operands of type i32 need a Packed Vector Format; add <PackedVectorFormat4x8Bit>

// -----

%h = "test.op"() : () -> (i16)
%0 = spirv.SDot %h, %h, <PackedVectorFormat4x8Bit> : i16 -> i32
// CHECK: DOT-11: a scalar operand must be a packed 32-bit integer, not i16

// -----

%l = "test.op"() : () -> (i64)
%0 = spirv.UDot %l, %l, <PackedVectorFormat4x8Bit> : i64 -> i64
// CHECK: DOT-11: a scalar operand must be a packed 32-bit integer, not i64

// -----

%f = "test.op"() : () -> (vector<4xf32>)
%0 = spirv.SDot %f, %f : vector<4xf32> -> i32
// CHECK: DOT-11: an operand must be a vector of integers or a packed 32-bit integer, not vector<4xf32>

// -----

%i = "test.op"() : () -> (i32)
%0 = spirv.SDot %i, %i, <PackedVectorFormat2x16Bit> : i32 -> i32
// CHECK: DOT-11: 'PackedVectorFormat2x16Bit' is not a PackedVectorFormat
