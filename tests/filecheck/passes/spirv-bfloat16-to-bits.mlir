// RUN: xdsl-opt %s -p 'spirv-bfloat16-to-bits' | filecheck %s

spirv.module Logical Vulkan {
  spirv.SpecConstant @scale spec_id(1) = -1.500000e+00 : bf16
  spirv.GlobalVariable @data bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<vector<2xbf16>, stride=4> [0]), Block>, StorageBuffer>
  spirv.func @main(%x: vector<2xbf16>, %b: bf16) -> bf16 "None" {
    %k = spirv.Constant dense<[1.0, -2.0]> : vector<2xbf16>
    %i = spirv.Bitcast %b : bf16 to i16
    %h = spirv.FConvert %b : bf16 to f16
    %n = spirv.ConvertFToS %b : bf16 to i32
    %d = spirv.Dot %x, %k : vector<2xbf16> -> bf16
    spirv.ReturnValue %d : bf16
  }
}

// CHECK:      spirv.SpecConstant @scale spec_id(1) = -16448 : i16
// CHECK-NEXT: spirv.GlobalVariable @data bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<vector<2xi16>, stride=4> [0]), Block>, StorageBuffer>
// CHECK-NEXT: spirv.func @main(%[[X:\w+]]: vector<2xi16>, %[[B:\w+]]: i16) -> i16 "None" {
// CHECK-NEXT: %[[V0:\w+]] = spirv.Constant 16 : i32
// CHECK-NEXT: %[[V1:\w+]] = spirv.Constant dense<16> : vector<2xi32>
// CHECK-NEXT: %[[V2:\w+]] = spirv.Constant 1 : i32
// CHECK-NEXT: %[[V3:\w+]] = spirv.Constant 32767 : i32
// CHECK-NEXT: %[[V4:\w+]] = spirv.Constant 2147483647 : i32
// CHECK-NEXT: %[[V5:\w+]] = spirv.Constant 2139095040 : i32
// CHECK-NEXT: %[[V6:\w+]] = spirv.Constant 64 : i32
// CHECK-NEXT: %[[K:\w+]] = spirv.Constant dense<[16256, -16384]> : vector<2xi16>
// CHECK-NEXT: %[[V7:\w+]] = spirv.UConvert %[[B]] : i16 to i32
// CHECK-NEXT: %[[V8:\w+]] = spirv.ShiftLeftLogical %[[V7]], %[[V0]] : i32, i32
// CHECK-NEXT: %[[V9:\w+]] = spirv.Bitcast %[[V8]] : i32 to f32
// CHECK-NEXT: %[[H:\w+]] = spirv.FConvert %[[V9]] : f32 to f16
// CHECK-NEXT: %[[V10:\w+]] = spirv.UConvert %[[B]] : i16 to i32
// CHECK-NEXT: %[[V11:\w+]] = spirv.ShiftLeftLogical %[[V10]], %[[V0]] : i32, i32
// CHECK-NEXT: %[[V12:\w+]] = spirv.Bitcast %[[V11]] : i32 to f32
// CHECK-NEXT: %[[N:\w+]] = spirv.ConvertFToS %[[V12]] : f32 to i32
// CHECK-NEXT: %[[V13:\w+]] = spirv.UConvert %[[X]] : vector<2xi16> to vector<2xi32>
// CHECK-NEXT: %[[V14:\w+]] = spirv.ShiftLeftLogical %[[V13]], %[[V1]] : vector<2xi32>, vector<2xi32>
// CHECK-NEXT: %[[V15:\w+]] = spirv.Bitcast %[[V14]] : vector<2xi32> to vector<2xf32>
// CHECK-NEXT: %[[V16:\w+]] = spirv.UConvert %[[K]] : vector<2xi16> to vector<2xi32>
// CHECK-NEXT: %[[V17:\w+]] = spirv.ShiftLeftLogical %[[V16]], %[[V1]] : vector<2xi32>, vector<2xi32>
// CHECK-NEXT: %[[V18:\w+]] = spirv.Bitcast %[[V17]] : vector<2xi32> to vector<2xf32>
// CHECK-NEXT: %[[V19:\w+]] = spirv.Dot %[[V15]], %[[V18]] : vector<2xf32> -> f32
// CHECK-NEXT: %[[V20:\w+]] = spirv.Bitcast %[[V19]] : f32 to i32
// CHECK-NEXT: %[[V21:\w+]] = spirv.ShiftRightLogical %[[V20]], %[[V0]] : i32, i32
// CHECK-NEXT: %[[V22:\w+]] = spirv.BitwiseAnd %[[V21]], %[[V2]] : i32
// CHECK-NEXT: %[[V23:\w+]] = spirv.IAdd %[[V22]], %[[V3]] : i32
// CHECK-NEXT: %[[V24:\w+]] = spirv.IAdd %[[V20]], %[[V23]] : i32
// CHECK-NEXT: %[[V25:\w+]] = spirv.ShiftRightLogical %[[V24]], %[[V0]] : i32, i32
// CHECK-NEXT: %[[V26:\w+]] = spirv.BitwiseAnd %[[V20]], %[[V4]] : i32
// CHECK-NEXT: %[[V27:\w+]] = spirv.UGreaterThan %[[V26]], %[[V5]] : i32
// CHECK-NEXT: %[[V28:\w+]] = spirv.BitwiseOr %[[V21]], %[[V6]] : i32
// CHECK-NEXT: %[[V29:\w+]] = spirv.Select %[[V27]], %[[V28]], %[[V25]] : i1, i32
// CHECK-NEXT: %[[D:\w+]] = spirv.UConvert %[[V29]] : i32 to i16
// CHECK-NEXT: spirv.ReturnValue %[[D]] : i16
