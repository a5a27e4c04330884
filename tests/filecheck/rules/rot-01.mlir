// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'spirv-update-vce{version=1.3}' --verify-diagnostics --split-input-file | filecheck %s --check-prefix=V13
// RUN: xdsl-opt %s -p 'spirv-update-vce{version=1.2}' --verify-diagnostics --split-input-file | filecheck %s --check-prefix=V12
// ROT-01: a rotation needs SPV_KHR_subgroup_rotate, SPIR-V 1.3 and GroupNonUniformRotateKHR, which implies
// GroupNonUniform. MLIR leaves the extension out.

spirv.module Logical GLSL450 {
  spirv.func @f(%v: f32, %d: i32) "None" {
    %0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i32 -> f32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, GroupNonUniformRotateKHR], [SPV_KHR_subgroup_rotate]>
// V13: #spirv.vce<v1.3, [Shader, GroupNonUniformRotateKHR], [SPV_KHR_subgroup_rotate]>
// V12: ROT-01: the capability GroupNonUniformRotateKHR needs SPIR-V 1.3, but the module is for 1.2; raise the option version of spirv-update-vce

// -----

spirv.module Logical GLSL450 {
  spirv.GlobalVariable @s built_in("SubgroupSize") : !spirv.ptr<i32, Input>
  spirv.func @f(%v: f32, %d: i32) "None" {
    %0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i32 -> f32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, GroupNonUniformRotateKHR], [SPV_KHR_subgroup_rotate]>
// V13: #spirv.vce<v1.3, [Shader, GroupNonUniformRotateKHR], [SPV_KHR_subgroup_rotate]>
// V12: ROT-01: 
