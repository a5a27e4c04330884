// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-10: the pointee of a load's or store's pointer is a scalar or vector, and with Shader the pointer
// points into an array.

spirv.module Logical Vulkan {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %p = spirv.AccessChain %A[%i, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %st = spirv.Constant 16 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-10:
// CHECK: {{^//}} -----

// -----

// The pointee may be a vector, and another type than the component (CM-13).
spirv.module Logical Vulkan {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<vector<4xf32>, stride=16> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(!spirv.rtarray<vector<4xf32>, stride=16> [0])>, StorageBuffer>
    %p = spirv.AccessChain %A[%i, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<vector<4xf32>, stride=16> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<vector<4xf32>, StorageBuffer>
    %st = spirv.Constant 16 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<vector<4xf32>, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<vector<4xf32>, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-10:
// CHECK: {{^//}} -----

// -----

// A member of a struct in an array of structs is also inside of an array.
spirv.module Logical Vulkan {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.array<4 x !spirv.struct<(f16 [0])>>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.array<4 x !spirv.struct<(f16 [0])>>, StorageBuffer>
    %p = spirv.AccessChain %A[%i, %i] : !spirv.ptr<!spirv.array<4 x !spirv.struct<(f16 [0])>>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %st = spirv.Constant 16 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-10:
// CHECK: {{^//}} -----

// -----

// Without Shader there is no rule about arrays.
spirv.module Physical64 OpenCL requires #spirv.vce<v1.6, [Addresses, Kernel, Float16, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]> {
  spirv.func @f() "None" {
    %p = spirv.Variable : !spirv.ptr<f16, Function>
    %st = spirv.Constant 16 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<f16, Function>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<f16, Function>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-10:
// CHECK: {{^//}} -----

// -----

%p, %i = "test.op"() : () -> (!spirv.ptr<!spirv.array<4 x f16>, StorageBuffer>, i32)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor> : !spirv.ptr<!spirv.array<4 x f16>, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-10: the pointee must be a scalar or a vector, not !spirv.array<4 x f16>; point to the matrix's first element with spirv.AccessChain

// -----

%p, %a, %i = "test.op"() : () -> (!spirv.ptr<!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, Function>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32)
spirv.KHR.CooperativeMatrixStore %p, %a, %i, <RowMajor> : !spirv.ptr<!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, Function>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
// CHECK: CM-10: the pointee must be a scalar or a vector, not !spirv.coopmatrix

// -----

%p, %i = "test.op"() : () -> (memref<4xf16>, i32)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor> : memref<4xf16>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-10: the matrix must be addressed by a pointer, not memref<4xf16>

// -----

spirv.module Logical Vulkan {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(f16 [0])>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(f16 [0])>, StorageBuffer>
    %p = spirv.AccessChain %A[%i] : !spirv.ptr<!spirv.struct<(f16 [0])>, StorageBuffer>, i32 -> !spirv.ptr<f16, StorageBuffer>
    %st = spirv.Constant 16 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: CM-10: the pointer !spirv.ptr<f16, StorageBuffer> does not point into an array; form the pointer with spirv.AccessChain from an array's pointer

// -----

spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    %p = spirv.Variable : !spirv.ptr<f16, Function>
    %st = spirv.Constant 16 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<f16, Function>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: CM-10: the pointer !spirv.ptr<f16, Function> does not point into an array
