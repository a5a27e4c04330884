// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// If several capabilities enable an instruction, a needed one is used, else
// a declared one, else the least. Implied capabilities are not repeated.

spirv.module Logical Vulkan {
  spirv.GlobalVariable @GlobalInvocationId built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
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

// -----

spirv.module Logical Vulkan {
  spirv.GlobalVariable @SubgroupId built_in("SubgroupId") : !spirv.ptr<i32, Input>
  spirv.GlobalVariable @SubgroupSize built_in("SubgroupSize") : !spirv.ptr<i32, Input>
  spirv.func @f() "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, GroupNonUniform, VulkanMemoryModel], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%x: f32) "None" {
    %0 = spirv.GroupNonUniformFAdd <Subgroup> <Reduce> %x : f32 -> f32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, GroupNonUniformArithmetic, VulkanMemoryModel], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%x: f32) "None" {
    %n = spirv.Constant 4 : i32
    %0 = spirv.GroupNonUniformFAdd <Subgroup> <ClusteredReduce> %x cluster_size(%n) : f32, i32 -> f32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, GroupNonUniformClustered, VulkanMemoryModel], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%x: f32) "None" {
    %n = spirv.Constant 4 : i32
    %0 = spirv.GroupNonUniformFAdd <Subgroup> <ClusteredReduce> %x cluster_size(%n) : f32, i32 -> f32
    %1 = spirv.GroupNonUniformFAdd <Subgroup> <Reduce> %x : f32 -> f32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, GroupNonUniformArithmetic, GroupNonUniformClustered, VulkanMemoryModel], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%x: i1, %y: f32, %z: i32) "None" {
    %0 = spirv.GroupNonUniformBallot <Subgroup> %x : vector<4xi32>
    %1 = spirv.GroupNonUniformShuffle <Subgroup> %y, %z : f32, i32
    %2 = spirv.GroupNonUniformElect <Subgroup> : i1
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, GroupNonUniformBallot, GroupNonUniformShuffle, VulkanMemoryModel], []>

// -----

// Declared capabilities that are not needed are removed. Of alternatives, the declared one stays.
spirv.module Logical Vulkan requires #spirv.vce<v1.3, [Shader, Int8, Float64, SubgroupBallotKHR, VulkanMemoryModel], [SPV_KHR_shader_ballot, SPV_KHR_bfloat16]> {
  spirv.GlobalVariable @SubgroupSize built_in("SubgroupSize") : !spirv.ptr<i32, Input>
  spirv.func @f() "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, SubgroupBallotKHR, VulkanMemoryModel], [SPV_KHR_shader_ballot]>

// -----

// A module of OpenCL kernels keeps the capability Kernel.
spirv.module Physical64 OpenCL {
  spirv.GlobalVariable @SubgroupSize built_in("SubgroupSize") : !spirv.ptr<i32, Input>
  spirv.func @f() "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "Kernel" @main
}
// CHECK: #spirv.vce<v1.6, [Addresses, Kernel], []>
