// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// DOT-02: each of the six instructions needs DotProduct.

spirv.module Logical Vulkan {
  spirv.func @f(%p: i32) "None" {
    %0 = spirv.SDot %p, %p, <PackedVectorFormat4x8Bit> : i32 -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, DotProductInput4x8BitPacked, DotProduct], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%p: i32) "None" {
    %0 = spirv.UDot %p, %p, <PackedVectorFormat4x8Bit> : i32 -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, DotProductInput4x8BitPacked, DotProduct], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%p: i32) "None" {
    %0 = spirv.SUDot %p, %p, <PackedVectorFormat4x8Bit> : i32 -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, DotProductInput4x8BitPacked, DotProduct], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%p: i32) "None" {
    %0 = spirv.SDotAccSat %p, %p, %p, <PackedVectorFormat4x8Bit> : i32 -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, DotProductInput4x8BitPacked, DotProduct], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%p: i32) "None" {
    %0 = spirv.UDotAccSat %p, %p, %p, <PackedVectorFormat4x8Bit> : i32 -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, DotProductInput4x8BitPacked, DotProduct], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%p: i32) "None" {
    %0 = spirv.SUDotAccSat %p, %p, %p, <PackedVectorFormat4x8Bit> : i32 -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, DotProductInput4x8BitPacked, DotProduct], []>
