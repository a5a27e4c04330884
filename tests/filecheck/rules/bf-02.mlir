// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// BF-02: OpDot on bfloat16 needs BFloat16DotProductKHR, which implies BFloat16TypeKHR.

spirv.module Logical Vulkan {
  spirv.func @f(%x: vector<4xbf16>) "None" {
    %0 = spirv.Dot %x, %x : vector<4xbf16> -> bf16
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, BFloat16DotProductKHR, VulkanMemoryModel], [SPV_KHR_bfloat16]>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%x: vector<4xf16>) "None" {
    %0 = spirv.Dot %x, %x : vector<4xf16> -> f16
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Float16, VulkanMemoryModel], []>
