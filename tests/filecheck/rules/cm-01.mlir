// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'spirv-update-vce{version=1.5}' --verify-diagnostics --split-input-file | filecheck %s --check-prefix=V15
// CM-01: cooperative matrices need SPV_KHR_cooperative_matrix, CooperativeMatrixKHR and SPIR-V 1.6.

spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]>
// V15: CM-01: the capability CooperativeMatrixKHR needs SPIR-V 1.6, but the module is for 1.5; raise the option version of spirv-update-vce

// -----

spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    %0 = spirv.KHR.CooperativeMatrixLength : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]>
// V15: CM-01: 

// -----

// An unused variable needs it too.
spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    %0 = spirv.Variable : !spirv.ptr<!spirv.array<2 x !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>>, Function>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, VulkanMemoryModel, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]>
// V15: CM-01: 

// -----

spirv.module Physical64 OpenCL {
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "Kernel" @main
}
// CHECK: #spirv.vce<v1.6, [Addresses, Kernel, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]>
// V15: CM-01: 
