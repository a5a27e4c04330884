// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// CM-02: a shader with cooperative matrices declares VulkanMemoryModel and uses the Vulkan memory model.
// Where a module says GLSL450, shared accesses become non-private, and barriers make available and visible.
// MLIR leaves GLSL450.

spirv.module Logical GLSL450 {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
  spirv.GlobalVariable @W : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %st = spirv.Constant 16 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
    %p = spirv.AccessChain %A[%i, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
    %W = spirv.mlir.addressof @W : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>
    %q = spirv.AccessChain %W[%i] : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>, i32 -> !spirv.ptr<f32, Workgroup>
    %v = spirv.Variable : !spirv.ptr<f32, Function>
    %x = spirv.Load "StorageBuffer" %p : f32
    spirv.Store "Workgroup" %q, %x ["Aligned", 4] : f32
    spirv.Store "Function" %v, %x : f32
    spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>
    %m = spirv.KHR.CooperativeMatrixLoad %q, %st, <RowMajor> : !spirv.ptr<f32, Workgroup>, i32 -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.MemoryBarrier <Device>, <SequentiallyConsistent|UniformMemory>
    spirv.KHR.CooperativeMatrixStore %p, %m, %st, <RowMajor> : !spirv.ptr<f32, StorageBuffer>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, VulkanMemoryModel, VulkanMemoryModelDeviceScope, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]>
// CHECK: spirv.Load "StorageBuffer" %p ["NonPrivatePointer"] : f32
// CHECK: spirv.Store "Workgroup" %q, %x ["Aligned|NonPrivatePointer", 4] : f32
// CHECK: spirv.Store "Function" %v, %x : f32
// CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>
// CHECK: spirv.KHR.CooperativeMatrixLoad %q, %st, <RowMajor>, <NonPrivatePointer> :
// CHECK: spirv.MemoryBarrier <Device>, <AcquireRelease|UniformMemory|MakeAvailable|MakeVisible>
// CHECK: spirv.KHR.CooperativeMatrixStore %p, %m, %st, <RowMajor>, <NonPrivatePointer> :

// -----

// Under the Vulkan memory model only the triple changes.
spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>
    %0 = spirv.Undef : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, VulkanMemoryModel, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]>
// CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>{{$}}

// -----

// Without cooperative matrices, GLSL450 is kept.
spirv.module Logical GLSL450 {
  spirv.func @f() "None" {
    spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: spirv.module Logical GLSL450 requires #spirv.vce<v1.6, [Shader], []>
// CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>{{$}}

// -----

// A kernel keeps its memory model.
spirv.module Physical64 OpenCL {
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "Kernel" @main
}
// CHECK: spirv.module Physical64 OpenCL requires #spirv.vce<v1.6, [Addresses, Kernel, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]>

// -----

spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]> {
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: CM-02: a shader declares CooperativeMatrixKHR without VulkanMemoryModel; declare VulkanMemoryModel, or run the pass spirv-update-vce without a triple

// -----

spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, BFloat16CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]> {
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: CM-02: a shader declares CooperativeMatrixKHR without VulkanMemoryModel

// -----

spirv.module Logical GLSL450 requires #spirv.vce<v1.6, [Shader, VulkanMemoryModel, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]> {
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: CM-02: the memory model of a shader with cooperative matrices is not Vulkan; write `spirv.module Logical Vulkan`
