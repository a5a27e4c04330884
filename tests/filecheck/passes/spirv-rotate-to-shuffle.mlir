// RUN: xdsl-opt %s -p 'spirv-rotate-to-shuffle' | filecheck %s

spirv.module Logical Vulkan {
  spirv.func @rotations(%v: vector<2xf32>, %d: i32, %w: i64) "None" {
    %n = spirv.Constant 8 : i32
    %0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : vector<2xf32>, i32 -> vector<2xf32>
    %1 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %w, cluster_size(%n) : vector<2xf32>, i64, i32 -> vector<2xf32>
    spirv.Return
  }
}

// CHECK:      spirv.GlobalVariable @__builtin__SubgroupLocalInvocationId__ built_in("SubgroupLocalInvocationId") : !spirv.ptr<i32, Input>
// CHECK-NEXT: spirv.GlobalVariable @__builtin__SubgroupSize__ built_in("SubgroupSize") : !spirv.ptr<i32, Input>
// CHECK-NEXT: spirv.func @rotations(%[[V:\w+]]: vector<2xf32>, %[[D:\w+]]: i32, %[[W:\w+]]: i64) "None" {
// CHECK-NEXT: %[[V0:\w+]] = spirv.mlir.addressof @__builtin__SubgroupLocalInvocationId__ : !spirv.ptr<i32, Input>
// CHECK-NEXT: %[[V1:\w+]] = spirv.Load "Input" %[[V0]] : i32
// CHECK-NEXT: %[[V2:\w+]] = spirv.mlir.addressof @__builtin__SubgroupSize__ : !spirv.ptr<i32, Input>
// CHECK-NEXT: %[[V3:\w+]] = spirv.Load "Input" %[[V2]] : i32
// CHECK-NEXT: %[[V4:\w+]] = spirv.Constant 1 : i32
// CHECK-NEXT: %[[V5:\w+]] = spirv.Constant 7 : i32
// CHECK-NEXT: %[[V6:\w+]] = spirv.Constant -8 : i32
// CHECK-NEXT: %[[N:\w+]] = spirv.Constant 8 : i32
// CHECK-NEXT: %[[V7:\w+]] = spirv.IAdd %[[V1]], %[[D]] : i32
// CHECK-NEXT: %[[V8:\w+]] = spirv.ISub %[[V3]], %[[V4]] : i32
// CHECK-NEXT: %[[V9:\w+]] = spirv.BitwiseAnd %[[V7]], %[[V8]] : i32
// CHECK-NEXT: %[[V10:\w+]] = spirv.GroupNonUniformShuffle <Subgroup> %[[V]], %[[V9]] : vector<2xf32>, i32
// CHECK-NEXT: %[[V11:\w+]] = spirv.UConvert %[[W]] : i64 to i32
// CHECK-NEXT: %[[V12:\w+]] = spirv.IAdd %[[V1]], %[[V11]] : i32
// CHECK-NEXT: %[[V13:\w+]] = spirv.BitwiseAnd %[[V12]], %[[V5]] : i32
// CHECK-NEXT: %[[V14:\w+]] = spirv.BitwiseAnd %[[V1]], %[[V6]] : i32
// CHECK-NEXT: %[[V15:\w+]] = spirv.IAdd %[[V13]], %[[V14]] : i32
// CHECK-NEXT: %[[V16:\w+]] = spirv.GroupNonUniformShuffle <Subgroup> %[[V]], %[[V15]] : vector<2xf32>, i32
// CHECK-NEXT: spirv.Return
