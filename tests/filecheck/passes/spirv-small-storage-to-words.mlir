// RUN: xdsl-opt %s -p 'spirv-small-storage-to-words' | filecheck %s

spirv.module Logical GLSL450 {
  spirv.GlobalVariable @bytes bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i8, stride=1> [0]), Block>, StorageBuffer>
  spirv.func @moved(%i: i32) "None" {
    %zero = spirv.Constant 0 : i32
    %three = spirv.Constant 3 : i32
    %base = spirv.mlir.addressof @bytes : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i8, stride=1> [0]), Block>, StorageBuffer>
    %p = spirv.AccessChain %base[%zero, %three] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i8, stride=1> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<i8, StorageBuffer>
    %x = spirv.Load "StorageBuffer" %p : i8
    %q = spirv.AccessChain %base[%zero, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i8, stride=1> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<i8, StorageBuffer>
    spirv.Store "StorageBuffer" %q, %x : i8
    spirv.Return
  }
}

// CHECK:      spirv.GlobalVariable @bytes bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>
// CHECK-NEXT: spirv.func @moved(%[[I:\w+]]: i32) "None" {
// CHECK-NEXT: %[[V0:\w+]] = spirv.Constant 0 : i32
// CHECK-NEXT: %[[V1:\w+]] = spirv.mlir.addressof @bytes : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>
// CHECK-NEXT: %[[V2:\w+]] = spirv.Constant 24 : i32
// CHECK-NEXT: %[[V3:\w+]] = spirv.Constant 2 : i32
// CHECK-NEXT: %[[V4:\w+]] = spirv.Constant 255 : i32
// CHECK-NEXT: %[[V5:\w+]] = spirv.Constant 3 : i32
// CHECK-NEXT: %[[V6:\w+]] = spirv.Constant 8 : i32
// CHECK-NEXT: %[[ZERO:\w+]] = spirv.Constant 0 : i32
// CHECK-NEXT: %[[THREE:\w+]] = spirv.Constant 3 : i32
// CHECK-NEXT: %[[V7:\w+]] = spirv.AccessChain %[[V1]][%[[V0]], %[[V0]]] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
// CHECK-NEXT: %[[V8:\w+]] = spirv.AtomicLoad <Device> <None> %[[V7]] : !spirv.ptr<i32, StorageBuffer>
// CHECK-NEXT: %[[V9:\w+]] = spirv.ShiftRightLogical %[[V8]], %[[V2]] : i32, i32
// CHECK-NEXT: %[[X:\w+]] = spirv.UConvert %[[V9]] : i32 to i8
// CHECK-NEXT: %[[V10:\w+]] = spirv.UConvert %[[X]] : i8 to i32
// CHECK-NEXT: %[[V11:\w+]] = spirv.ShiftRightLogical %[[I]], %[[V3]] : i32, i32
// CHECK-NEXT: %[[V12:\w+]] = spirv.AccessChain %[[V1]][%[[V0]], %[[V11]]] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
// CHECK-NEXT: %[[V13:\w+]] = spirv.BitwiseAnd %[[I]], %[[V5]] : i32
// CHECK-NEXT: %[[V14:\w+]] = spirv.IMul %[[V13]], %[[V6]] : i32
// CHECK-NEXT: %[[V15:\w+]] = spirv.ShiftLeftLogical %[[V4]], %[[V14]] : i32, i32
// CHECK-NEXT: %[[V16:\w+]] = spirv.Not %[[V15]] : i32
// CHECK-NEXT: %[[V17:\w+]] = spirv.ShiftLeftLogical %[[V10]], %[[V14]] : i32, i32
// CHECK-NEXT: %[[V18:\w+]] = spirv.AtomicAnd <Device> <None> %[[V12]], %[[V16]] : !spirv.ptr<i32, StorageBuffer>
// CHECK-NEXT: %[[V19:\w+]] = spirv.AtomicOr <Device> <None> %[[V12]], %[[V17]] : !spirv.ptr<i32, StorageBuffer>
// CHECK-NEXT: spirv.Return
