// RUN: XDSL_ROUNDTRIP
// Shifts, bitwise logic, bit fields and counts.

spirv.module Logical GLSL450 {
  spirv.func @bit(%i: i32, %vi: vector<4xi32>, %l: i64) "None" {
    // CHECK-LABEL: spirv.func @bit
    %0 = spirv.BitwiseAnd %i, %i : i32
    // CHECK-NEXT: %0 = spirv.BitwiseAnd %i, %i : i32
    %1 = spirv.BitwiseOr %i, %i : i32
    // CHECK-NEXT: %1 = spirv.BitwiseOr %i, %i : i32
    %2 = spirv.BitwiseXor %i, %i : i32
    // CHECK-NEXT: %2 = spirv.BitwiseXor %i, %i : i32
    %3 = spirv.BitwiseXor %vi, %vi : vector<4xi32>
    // CHECK-NEXT: %3 = spirv.BitwiseXor %vi, %vi : vector<4xi32>
    %4 = spirv.Not %i : i32
    // CHECK-NEXT: %4 = spirv.Not %i : i32
    %5 = spirv.BitReverse %i : i32
    // CHECK-NEXT: %5 = spirv.BitReverse %i : i32
    %6 = spirv.BitCount %vi : vector<4xi32>
    // CHECK-NEXT: %6 = spirv.BitCount %vi : vector<4xi32>
    %7 = spirv.ShiftLeftLogical %i, %l : i32, i64
    // CHECK-NEXT: %7 = spirv.ShiftLeftLogical %i, %l : i32, i64
    %8 = spirv.ShiftRightLogical %i, %l : i32, i64
    // CHECK-NEXT: %8 = spirv.ShiftRightLogical %i, %l : i32, i64
    %9 = spirv.ShiftRightArithmetic %i, %l : i32, i64
    // CHECK-NEXT: %9 = spirv.ShiftRightArithmetic %i, %l : i32, i64
    %10 = spirv.BitFieldInsert %vi, %vi, %i, %i : vector<4xi32>, i32, i32
    // CHECK-NEXT: %10 = spirv.BitFieldInsert %vi, %vi, %i, %i : vector<4xi32>, i32, i32
    %11 = spirv.BitFieldSExtract %i, %i, %i : i32, i32, i32
    // CHECK-NEXT: %11 = spirv.BitFieldSExtract %i, %i, %i : i32, i32, i32
    %12 = spirv.BitFieldUExtract %i, %i, %i : i32, i32, i32
    // CHECK-NEXT: %12 = spirv.BitFieldUExtract %i, %i, %i : i32, i32, i32
    spirv.Return
  }
}
