// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// DOT-03: 4 x 8 bits packed in a 32-bit scalar need DotProductInput4x8BitPacked, and no Int8.

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
  spirv.func @f(%p: i32, %a: i64) "None" {
    %0 = spirv.SDotAccSat %p, %p, %a, <PackedVectorFormat4x8Bit> : i32 -> i64
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Int64, VulkanMemoryModel, DotProductInput4x8BitPacked, DotProduct], []>
