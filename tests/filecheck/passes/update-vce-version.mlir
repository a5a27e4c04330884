// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'spirv-update-vce{version=1.4}' --verify-diagnostics --split-input-file | filecheck %s --check-prefix=V14
// RUN: xdsl-opt %s -p 'spirv-update-vce{version=1.0}' --verify-diagnostics --split-input-file | filecheck %s --check-prefix=V10
// The option gives the version. Extensions provide what this version lacks. Features without an extension are refused.

spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel], []>
// V14: #spirv.vce<v1.4, [Shader, VulkanMemoryModel], [SPV_KHR_vulkan_memory_model]>
// V10: #spirv.vce<v1.0, [Shader, VulkanMemoryModel], [SPV_KHR_vulkan_memory_model]>

// -----

spirv.module Logical GLSL450 {
  spirv.func @f() "None" {
    %0 = spirv.GroupNonUniformElect <Subgroup> : i1
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, GroupNonUniform], []>
// V14: #spirv.vce<v1.4, [Shader, GroupNonUniform], []>
// V10: spirv.GroupNonUniformElect needs SPIR-V 1.3, but the module is for 1.0; raise the option version of spirv-update-vce
