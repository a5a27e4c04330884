// RUN: xdsl-opt %s -p 'spirv-to-vulkan12' | filecheck %s
// RUN: xdsl-opt %s -p 'spirv-to-vulkan12{target=lavapipe}' | filecheck %s --check-prefix=LAVAPIPE
// RUN: not xdsl-opt %s -p 'spirv-to-vulkan12{target=toaster}' 2>&1 | filecheck %s --check-prefix=UNKNOWN

spirv.module Logical Vulkan {
  spirv.GlobalVariable @data bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>
  spirv.func @main() "None" {
    %zero = spirv.Constant 0 : i32
    %one = spirv.Constant 1 : i32
    %data = spirv.mlir.addressof @data : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>
    %p = spirv.AccessChain %data[%zero, %one] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
    %x = spirv.Load "StorageBuffer" %p ["MakePointerVisible|NonPrivatePointer", scope(<Workgroup>)] : i32
    %y = spirv.GroupNonUniformRotateKHR <Subgroup> %x, %one : i32, i32 -> i32
    spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|UniformMemory|MakeAvailable|MakeVisible>
    spirv.Store "StorageBuffer" %p, %y : i32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// CHECK: spirv.module Logical GLSL450 requires #spirv.vce<v1.5, [Shader, GroupNonUniformShuffle], []>
// CHECK-NEXT: spirv.GlobalVariable @data bind(0, 0) {coherent} : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>
// CHECK-NEXT: spirv.GlobalVariable @__builtin__SubgroupLocalInvocationId__ built_in("SubgroupLocalInvocationId") : !spirv.ptr<i32, Input>
// CHECK-NEXT: spirv.GlobalVariable @__builtin__SubgroupSize__ built_in("SubgroupSize") : !spirv.ptr<i32, Input>
// CHECK-NEXT: spirv.func @main() "None" {
// CHECK-NEXT: %[[V0:\w+]] = spirv.mlir.addressof @__builtin__SubgroupLocalInvocationId__ : !spirv.ptr<i32, Input>
// CHECK-NEXT: %[[V1:\w+]] = spirv.Load "Input" %[[V0]] : i32
// CHECK-NEXT: %[[V2:\w+]] = spirv.Constant 1 : i32
// CHECK-NEXT: %[[V5:\w+]] = spirv.IAdd %[[V1]], %[[V2]] : i32
// CHECK-NEXT: %[[V3:\w+]] = spirv.mlir.addressof @__builtin__SubgroupSize__ : !spirv.ptr<i32, Input>
// CHECK-NEXT: %[[V4:\w+]] = spirv.Load "Input" %[[V3]] : i32
// CHECK-NEXT: %[[ZERO:\w+]] = spirv.Constant 0 : i32
// CHECK-NEXT: %[[ONE:\w+]] = spirv.Constant 1 : i32
// CHECK-NEXT: %[[DATA:\w+]] = spirv.mlir.addressof @data : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>
// CHECK-NEXT: %[[P:\w+]] = spirv.AccessChain %[[DATA]][%[[ZERO]], %[[ONE]]] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
// CHECK-NEXT: %[[X:\w+]] = spirv.Load "StorageBuffer" %[[P]] : i32
// CHECK-NEXT: %[[V6:\w+]] = spirv.ISub %[[V4]], %[[V2]] : i32
// CHECK-NEXT: %[[V7:\w+]] = spirv.BitwiseAnd %[[V5]], %[[V6]] : i32
// CHECK-NEXT: %[[Y:\w+]] = spirv.GroupNonUniformShuffle <Subgroup> %[[X]], %[[V7]] : i32, i32
// CHECK-NEXT: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|UniformMemory>
// CHECK-NEXT: spirv.Store "StorageBuffer" %[[P]], %[[Y]] : i32
// CHECK-NEXT: spirv.Return
// CHECK:      spirv.EntryPoint "GLCompute" @main
// CHECK-NEXT: spirv.ExecutionMode @main "LocalSize", 32, 1, 1

// LAVAPIPE: spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, VulkanMemoryModel, GroupNonUniformRotateKHR], [SPV_KHR_subgroup_rotate]>
// LAVAPIPE: spirv.GroupNonUniformRotateKHR
// UNKNOWN: spirv-to-vulkan12: there is no target 'toaster'
