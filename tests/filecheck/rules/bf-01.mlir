// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'spirv-update-vce{version=1.0}' --verify-diagnostics --split-input-file | filecheck %s --check-prefix=V10
// BF-01: the type and conversions need SPV_KHR_bfloat16 and BFloat16TypeKHR, not Float16.

spirv.module Logical GLSL450 {
  spirv.func @f(%x: bf16) "None" {
    %0 = spirv.FConvert %x : bf16 to f32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, BFloat16TypeKHR], [SPV_KHR_bfloat16]>
// V10: #spirv.vce<v1.0, [Shader, BFloat16TypeKHR], [SPV_KHR_bfloat16]>

// -----

spirv.module Logical GLSL450 {
  spirv.func @f() "None" {
    %0 = spirv.Constant 1.0 : bf16
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, BFloat16TypeKHR], [SPV_KHR_bfloat16]>
// V10: #spirv.vce<v1.0, [Shader, BFloat16TypeKHR], [SPV_KHR_bfloat16]>

// -----

spirv.module Logical GLSL450 {
  spirv.func @f(%x: vector<2xi32>) "None" {
    %0 = spirv.ConvertSToF %x : vector<2xi32> to vector<2xbf16>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, BFloat16TypeKHR], [SPV_KHR_bfloat16]>
// V10: #spirv.vce<v1.0, [Shader, BFloat16TypeKHR], [SPV_KHR_bfloat16]>
