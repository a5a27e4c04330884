// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// DOT-04: a vector of four 8-bit integers needs DotProductInput4x8Bit, which implies Int8.

spirv.module Logical Vulkan {
  spirv.func @f(%v: vector<4xi8>) "None" {
    %0 = spirv.SDot %v, %v : vector<4xi8> -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, DotProductInput4x8Bit, DotProduct], []>

// -----

// Also beside vectors of other types.
spirv.module Logical Vulkan {
  spirv.func @f(%v: vector<4xui8>, %x: vector<3xui32>) "None" {
    %0 = spirv.UDot %v, %v : vector<4xui8> -> i32
    %1 = spirv.UDot %x, %x : vector<3xui32> -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, DotProductInputAll, DotProductInput4x8Bit, DotProduct], []>
