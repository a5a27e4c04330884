// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'spirv-update-vce{version=1.5}' --verify-diagnostics --split-input-file | filecheck %s --check-prefix=V15
// RUN: xdsl-opt %s -p 'spirv-update-vce{version=1.0}' --verify-diagnostics --split-input-file | filecheck %s --check-prefix=V10
// DOT-01: SPV_KHR_integer_dot_product for versions below 1.6; from 1.6 the instructions are core.
// MLIR refuses them below 1.6.

spirv.module Logical GLSL450 {
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
// CHECK: #spirv.vce<v1.6, [Shader, DotProductInput4x8BitPacked, DotProduct], []>
// V15: #spirv.vce<v1.5, [Shader, DotProductInput4x8BitPacked, DotProduct], [SPV_KHR_integer_dot_product]>
// V10: #spirv.vce<v1.0, [Shader, DotProductInput4x8BitPacked, DotProduct], [SPV_KHR_integer_dot_product]>
