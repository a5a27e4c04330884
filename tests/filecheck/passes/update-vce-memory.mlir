// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// Atomics, computed pointers, physical pointers and scopes of the Vulkan memory model have their capabilities.

spirv.module Logical GLSL450 {
  spirv.func @f(%p: !spirv.ptr<i32, StorageBuffer>, %x: i32) "None" {
    %0 = spirv.AtomicIAdd <Device> <None> %p, %x : !spirv.ptr<i32, StorageBuffer>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader], []>

// -----

spirv.module Logical GLSL450 {
  spirv.func @f(%p: !spirv.ptr<i64, StorageBuffer>, %x: i64) "None" {
    %0 = spirv.AtomicIAdd <Workgroup> <None> %p, %x : !spirv.ptr<i64, StorageBuffer>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Int64Atomics], []>

// -----

spirv.module Logical GLSL450 {
  spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>, %x: f32) "None" {
    %0 = spirv.EXT.AtomicFAdd <Workgroup> <None> %p, %x : !spirv.ptr<f32, StorageBuffer>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, AtomicFloat32AddEXT], [SPV_EXT_shader_atomic_float_add]>

// -----

spirv.module Logical GLSL450 {
  spirv.func @f(%p: !spirv.ptr<f16, StorageBuffer>, %x: f16) "None" {
    %0 = spirv.EXT.AtomicFAdd <Workgroup> <None> %p, %x : !spirv.ptr<f16, StorageBuffer>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: AtomicFloat16AddEXT
// CHECK: SPV_EXT_shader_atomic_float16_add

// -----

spirv.module Logical GLSL450 {
  spirv.func @f(%c: i1, %p: !spirv.ptr<f32, StorageBuffer>) "None" {
    %0 = spirv.Select %c, %p, %p : i1, !spirv.ptr<f32, StorageBuffer>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [VariablePointersStorageBuffer], []>

// -----

spirv.module Logical GLSL450 {
  spirv.func @f(%c: i1, %p: !spirv.ptr<f32, Workgroup>) "None" {
    %0 = spirv.Select %c, %p, %p : i1, !spirv.ptr<f32, Workgroup>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [VariablePointers], []>

// -----

// Device scope has its own capability in the Vulkan memory model.
spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    spirv.MemoryBarrier <Device>, <AcquireRelease|UniformMemory>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, VulkanMemoryModelDeviceScope], []>

// -----

// A memory operand may also need the Vulkan memory model.
spirv.module Logical GLSL450 {
  spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>) "None" {
    %0 = spirv.Load "StorageBuffer" %p ["NonPrivatePointer"] : f32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, VulkanMemoryModel], []>

// -----

spirv.module PhysicalStorageBuffer64 Vulkan {
  spirv.func @f(%p: !spirv.ptr<i32, PhysicalStorageBuffer> {spirv.decoration = #spirv.decoration<Aliased>}) "None" {
    %0 = spirv.Load "PhysicalStorageBuffer" %p ["Aligned", 4] : i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [VulkanMemoryModel, PhysicalStorageBufferAddresses], []>
