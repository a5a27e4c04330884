// RUN: xdsl-opt %s -p 'spirv-int64-to-words' | filecheck %s

spirv.module Logical GLSL450 {
  spirv.GlobalVariable @numbers bind(0, 0) {schedule.sizes = [array<i64: 0, 1>]} : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i64, stride=8> [0]), Block>, StorageBuffer>
  spirv.func @halved(%i: i64) "None" {
    %zero = spirv.Constant 0 : i32
    %base = spirv.mlir.addressof @numbers : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i64, stride=8> [0]), Block>, StorageBuffer>
    %p = spirv.AccessChain %base[%zero, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i64, stride=8> [0]), Block>, StorageBuffer>, i32, i64 -> !spirv.ptr<i64, StorageBuffer>
    %x = spirv.Load "StorageBuffer" %p : i64
    %more = spirv.Constant 4294967297 : i64
    %sum = spirv.IAdd %x, %more : i64
    %one = spirv.Constant 1 : i32
    %half = spirv.ShiftRightArithmetic %sum, %one : i64, i32
    spirv.Store "StorageBuffer" %p, %half : i64
    spirv.Return
  }
}

// CHECK:      spirv.GlobalVariable @numbers bind(0, 0) {schedule.sizes = [array<i64: 0, 1>]} : !spirv.ptr<!spirv.struct<(!spirv.rtarray<vector<2xi32>, stride=8> [0]), Block>, StorageBuffer>
// CHECK-NEXT: spirv.func @halved(%[[I:\w+]]: vector<2xi32>) "None" {
// CHECK-NEXT: %[[V0:\w+]] = spirv.Constant 1 : i32
// CHECK-NEXT: %[[V1:\w+]] = spirv.Constant 31 : i32
// CHECK-NEXT: %[[ZERO:\w+]] = spirv.Constant 0 : i32
// CHECK-NEXT: %[[BASE:\w+]] = spirv.mlir.addressof @numbers : !spirv.ptr<!spirv.struct<(!spirv.rtarray<vector<2xi32>, stride=8> [0]), Block>, StorageBuffer>
// CHECK-NEXT: %[[V2:\w+]] = spirv.CompositeExtract %[[I]][0 : i32] : vector<2xi32>
// CHECK-NEXT: %[[P:\w+]] = spirv.AccessChain %[[BASE]][%[[ZERO]], %[[V2]]] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<vector<2xi32>, stride=8> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<vector<2xi32>, StorageBuffer>
// CHECK-NEXT: %[[X:\w+]] = spirv.Load "StorageBuffer" %[[P]] : vector<2xi32>
// CHECK-NEXT: %[[V3:\w+]] = spirv.CompositeExtract %[[X]][0 : i32] : vector<2xi32>
// CHECK-NEXT: %[[V4:\w+]] = spirv.CompositeExtract %[[X]][1 : i32] : vector<2xi32>
// CHECK-NEXT: %[[V5:\w+]] = spirv.IAddCarry %[[V3]], %[[V0]] : !spirv.struct<(i32, i32)>
// CHECK-NEXT: %[[V6:\w+]] = spirv.CompositeExtract %[[V5]][0 : i32] : !spirv.struct<(i32, i32)>
// CHECK-NEXT: %[[V7:\w+]] = spirv.CompositeExtract %[[V5]][1 : i32] : !spirv.struct<(i32, i32)>
// CHECK-NEXT: %[[V8:\w+]] = spirv.IAdd %[[V4]], %[[V0]] : i32
// CHECK-NEXT: %[[V9:\w+]] = spirv.IAdd %[[V8]], %[[V7]] : i32
// CHECK-NEXT: %[[V10:\w+]] = spirv.ShiftRightLogical %[[V6]], %[[V0]] : i32, i32
// CHECK-NEXT: %[[V11:\w+]] = spirv.ShiftLeftLogical %[[V9]], %[[V1]] : i32, i32
// CHECK-NEXT: %[[V12:\w+]] = spirv.BitwiseOr %[[V10]], %[[V11]] : i32
// CHECK-NEXT: %[[V13:\w+]] = spirv.ShiftRightArithmetic %[[V9]], %[[V0]] : i32, i32
// CHECK-NEXT: %[[HALF:\w+]] = spirv.CompositeConstruct %[[V12]], %[[V13]] : (i32, i32) -> vector<2xi32>
// CHECK-NEXT: spirv.Store "StorageBuffer" %[[P]], %[[HALF]] : vector<2xi32>
// CHECK-NEXT: spirv.Return
