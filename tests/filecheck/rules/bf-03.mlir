// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// BF-03: cooperative matrices of bfloat16 need BFloat16CooperativeMatrixKHR, which implies BFloat16TypeKHR and
// CooperativeMatrixKHR. MLIR declares those two instead.

spirv.module Logical Vulkan {
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
// CHECK: #spirv.vce<v1.6, [Shader, BFloat16CooperativeMatrixKHR, VulkanMemoryModel], [SPV_KHR_bfloat16, SPV_KHR_cooperative_matrix]>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%a: !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>, %b: !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixB>, %c: !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>) "None" {
    %0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, BFloat16CooperativeMatrixKHR, VulkanMemoryModel], [SPV_KHR_bfloat16, SPV_KHR_cooperative_matrix]>

// -----

// Both an extension's capability and what it implies declared once, with bf16's dot product.
spirv.module Logical Vulkan {
  spirv.func @f(%x: vector<2xbf16>) "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixAcc>
    %1 = spirv.Dot %x, %x : vector<2xbf16> -> bf16
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, BFloat16DotProductKHR, BFloat16CooperativeMatrixKHR, VulkanMemoryModel], [SPV_KHR_bfloat16, SPV_KHR_cooperative_matrix]>
