// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-16: a cooperative matrix load or store is an allowed user of a pointer under logical addressing; without
// variable pointers, what computes pointers is not.

spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, Float16, StorageBuffer16BitAccess, VulkanMemoryModel, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]> {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %p = spirv.AccessChain %A[%i, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %st = spirv.Constant 16 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.KHR.CooperativeMatrixStore %p, %m, %st, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
    spirv.Return
  }
}
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.KHR.CooperativeMatrixStore %p, %m, %st
// CHECK-NOT: CM-16:
// CHECK: {{^//}} -----

// -----

spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, Float16, StorageBuffer16BitAccess, VulkanMemoryModel, CooperativeMatrixKHR, VariablePointersStorageBuffer], [SPV_KHR_cooperative_matrix]> {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %p = spirv.AccessChain %A[%i, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %c = spirv.Constant true
    %q = spirv.Select %c, %p, %p : i1, !spirv.ptr<f16, StorageBuffer>
    %st = spirv.Constant 16 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %q, %st, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: spirv.Select %c, %p, %p
// CHECK-NOT: CM-16:
// CHECK: {{^//}} -----

// -----

// Without declared capabilities, the rule cannot be decided.
spirv.module Logical Vulkan {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %p = spirv.AccessChain %A[%i, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %c = spirv.Constant true
    %q = spirv.Select %c, %p, %p : i1, !spirv.ptr<f16, StorageBuffer>
    spirv.Return
  }
}
// CHECK: spirv.Select %c, %p, %p
// CHECK-NOT: CM-16:
// CHECK: {{^//}} -----

// -----

spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, Float16, StorageBuffer16BitAccess, VulkanMemoryModel, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]> {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %p = spirv.AccessChain %A[%i, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %c = spirv.Constant true
    %q = spirv.Select %c, %p, %p : i1, !spirv.ptr<f16, StorageBuffer>
    spirv.Return
  }
}
// CHECK: CM-16: spirv.Select cannot use the pointer !spirv.ptr<f16, StorageBuffer> under logical addressing; load and store through the pointer, or declare VariablePointers
