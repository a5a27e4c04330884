// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-11: the memory layout is a 32-bit integer constant, RowMajor (0) or ColumnMajor (1); both need a Stride.

%p, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, i32)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
%1 = spirv.KHR.CooperativeMatrixLoad %p, %i, <ColumnMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, %i, <ColumnMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-11:
// CHECK: {{^//}} -----

// -----

spirv.module Logical Vulkan {
  spirv.SpecConstant @layout spec_id(0) = 1 : i32
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %p = spirv.AccessChain %A[%i, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %st = spirv.Constant 16 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %p, %st, @layout : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, %st, @layout : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-11:
// CHECK: {{^//}} -----

// -----

%p = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>)
%0 = spirv.KHR.CooperativeMatrixLoad %p, <RowMajor> : !spirv.ptr<f16, StorageBuffer> -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-11: the layout RowMajor needs a Stride, but no Stride is given; add the number of pointee elements from one row (column) to the next

// -----

%p, %a = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>)
spirv.KHR.CooperativeMatrixStore %p, %a, <ColumnMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-11: the layout ColumnMajor needs a Stride, but no Stride is given

// -----

%p, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, f32)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, f32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-11: the Stride must be an integer scalar, not f32

// -----

%p, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, i32)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <Diagonal> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-11: 'Diagonal' is not a CooperativeMatrixLayout

// -----

%p, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, i32)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowBlockedInterleavedARM> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-11: {{.*}}RowBlockedInterleavedARM{{.*}} is not a layout of SPV_KHR_cooperative_matrix

// -----

spirv.module Logical Vulkan {
  spirv.SpecConstant @layout spec_id(0) = 2 : i32
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %p = spirv.AccessChain %A[%i, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %st = spirv.Constant 16 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %p, %st, @layout : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: CM-11: the default of the layout @layout is 2, which is not a layout; use 0 for row-major or 1 for column-major

// -----

spirv.module Logical Vulkan {
  spirv.SpecConstant @layout spec_id(0) = 1 : i64
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %p = spirv.AccessChain %A[%i, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %st = spirv.Constant 16 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %p, %st, @layout : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: CM-11: the layout must come from a 32-bit integer constant, but @layout is 1 : i64

// -----

spirv.module Logical Vulkan {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %A = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %p = spirv.AccessChain %A[%i, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %st = spirv.Constant 16 : i32
    %m = spirv.KHR.CooperativeMatrixLoad %p, %st, @layout : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: CM-11: the layout must come from a 32-bit integer constant, but @layout does not exist; declare `spirv.SpecConstant @layout
