// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// Types need capabilities: widths of numbers, float8, and f16 that only an operation's type
// names. MLIR infers no Float16 from CooperativeMatrixLength and no Float8EXT from f8E4M3FN.

spirv.module Logical Vulkan {
  spirv.func @f(%a: i8, %b: i16, %c: i64, %d: f16, %e: f64) "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Float16, Float64, Int64, Int16, Int8, VulkanMemoryModel], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%a: vector<2xi64>, %b: i32, %c: f32, %d: i1) "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Int64, VulkanMemoryModel], []>

// -----

spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    %0 = spirv.KHR.CooperativeMatrixLength : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Float16, VulkanMemoryModel, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]>

// -----

spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Int8, VulkanMemoryModel, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]>

// -----

spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<16x16xf8E4M3FN, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Float8CooperativeMatrixEXT, VulkanMemoryModel], [SPV_EXT_float8, SPV_KHR_cooperative_matrix]>

// -----

spirv.module Logical Vulkan {
  spirv.func @f(%x: f8E5M2) "None" {
    %0 = spirv.FConvert %x : f8E5M2 to f32
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Float8EXT, VulkanMemoryModel], [SPV_EXT_float8]>

// -----

// A specialization constant's type is known from its default.
spirv.module Logical Vulkan {
  spirv.SpecConstant @x spec_id(0) = 1 : i64
  spirv.func @f() "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Int64, VulkanMemoryModel], []>

// -----

spirv.module Physical64 OpenCL {
  spirv.func @f(%a: vector<8xf32>) "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "Kernel" @main
}
// CHECK: #spirv.vce<v1.6, [Addresses, Vector16], []>
