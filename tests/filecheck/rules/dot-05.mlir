// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// DOT-05: any other integer vector needs DotProductInputAll; 8 and 16 components Vector16 (which is a
// kernel's), 8-bit components Int8, 16-bit Int16, 64-bit Int64.

spirv.module Logical Vulkan {
  spirv.func @f(%v: vector<3xi8>) "None" {
    %0 = spirv.SDot %v, %v : vector<3xi8> -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Int8, VulkanMemoryModel, DotProductInputAll, DotProduct], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%v: vector<2xi16>) "None" {
    %0 = spirv.SDot %v, %v : vector<2xi16> -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Int16, VulkanMemoryModel, DotProductInputAll, DotProduct], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%v: vector<4xi32>) "None" {
    %0 = spirv.SDot %v, %v : vector<4xi32> -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, DotProductInputAll, DotProduct], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%v: vector<2xi64>) "None" {
    %0 = spirv.SDot %v, %v : vector<2xi64> -> i64
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Int64, VulkanMemoryModel, DotProductInputAll, DotProduct], []>

// -----

spirv.module Physical64 OpenCL {
  spirv.func @f(%v: vector<8xi16>) "None" {
    %0 = spirv.SDot %v, %v : vector<8xi16> -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "Kernel" @main
}
// CHECK: #spirv.vce<v1.6, [Addresses, Vector16, Int16, DotProductInputAll, DotProduct], []>

// -----

spirv.module Physical64 OpenCL {
  spirv.func @f(%v: vector<16xi8>) "None" {
    %0 = spirv.SDot %v, %v : vector<16xi8> -> i32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "Kernel" @main
}
// CHECK: #spirv.vce<v1.6, [Addresses, Vector16, Int8, DotProductInputAll, DotProduct], []>
