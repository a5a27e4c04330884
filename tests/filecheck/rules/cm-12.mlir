// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-12: a known Stride is above 0 for a store, at least 0 for a load. (What runs is checked by the
// interpreter.)

%i = spirv.Constant 0 : i32
%p = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-12:
// CHECK: {{^//}} -----

// -----

%i = spirv.Constant 16 : i32
%p, %a = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>)
spirv.KHR.CooperativeMatrixStore %p, %a, %i, <ColumnMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
// CHECK: spirv.KHR.CooperativeMatrixStore %p, %a, %i, <ColumnMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
// CHECK-NOT: CM-12:
// CHECK: {{^//}} -----

// -----

// The stride is not known at compile time.
%p, %a, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32)
spirv.KHR.CooperativeMatrixStore %p, %a, %i, <ColumnMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
// CHECK: spirv.KHR.CooperativeMatrixStore %p, %a, %i, <ColumnMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
// CHECK-NOT: CM-12:
// CHECK: {{^//}} -----

// -----

%i = spirv.Constant 0 : i32
%p, %a = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>)
spirv.KHR.CooperativeMatrixStore %p, %a, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
// CHECK: CM-12: the Stride 0 is below 1; give the distance between rows (columns) in elements of the pointee type

// -----

%i = spirv.Constant -1 : i32
%p = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <ColumnMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-12: the Stride -1 is below 0

// -----

%i = arith.constant -16 : i32
%p, %a = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>)
spirv.KHR.CooperativeMatrixStore %p, %a, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
// CHECK: CM-12: the Stride -16 is below 1
