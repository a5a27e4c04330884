// RUN: xdsl-opt %s -p 'spirv-small-integers-to-32-bits' | filecheck %s

spirv.module Logical GLSL450 {
  spirv.func @sum(%a: i8, %b: i8) -> i32 "None" {
    %s = spirv.IAdd %a, %b : i8
    %q = spirv.SDiv %s, %b : i8
    %w = spirv.SConvert %q : i8 to i32
    spirv.ReturnValue %w : i32
  }
}

// CHECK:      spirv.func @sum(%[[A:\w+]]: i32, %[[B:\w+]]: i32) -> i32 "None" {
// CHECK-NEXT: %[[V0:\w+]] = spirv.Constant 255 : i32
// CHECK-NEXT: %[[V1:\w+]] = spirv.Constant 24 : i32
// CHECK-NEXT: %[[S:\w+]] = spirv.IAdd %[[A]], %[[B]] : i32
// CHECK-NEXT: %[[V2:\w+]] = spirv.BitwiseAnd %[[S]], %[[V0]] : i32
// CHECK-NEXT: %[[V3:\w+]] = spirv.ShiftLeftLogical %[[V2]], %[[V1]] : i32, i32
// CHECK-NEXT: %[[V4:\w+]] = spirv.ShiftRightArithmetic %[[V3]], %[[V1]] : i32, i32
// CHECK-NEXT: %[[V5:\w+]] = spirv.ShiftLeftLogical %[[B]], %[[V1]] : i32, i32
// CHECK-NEXT: %[[V6:\w+]] = spirv.ShiftRightArithmetic %[[V5]], %[[V1]] : i32, i32
// CHECK-NEXT: %[[Q:\w+]] = spirv.SDiv %[[V4]], %[[V6]] : i32
// CHECK-NEXT: %[[V7:\w+]] = spirv.BitwiseAnd %[[Q]], %[[V0]] : i32
// CHECK-NEXT: %[[V8:\w+]] = spirv.ShiftLeftLogical %[[V7]], %[[V1]] : i32, i32
// CHECK-NEXT: %[[W:\w+]] = spirv.ShiftRightArithmetic %[[V8]], %[[V1]] : i32, i32
// CHECK-NEXT: spirv.ReturnValue %[[W]] : i32
