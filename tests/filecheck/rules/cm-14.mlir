// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-14: a Memory Operand is given only after a Stride.

%p, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, i32)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
%1 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor>, <Volatile|Aligned>, 16 : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
%2 = spirv.KHR.CooperativeMatrixLoad %p, @layout : !spirv.ptr<f16, StorageBuffer> -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor>, <Volatile|Aligned>, 16 : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, @layout : !spirv.ptr<f16, StorageBuffer> -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-14:
// CHECK: {{^//}} -----

// -----

%p = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>)
%0 = spirv.KHR.CooperativeMatrixLoad %p, @layout, <Volatile> : !spirv.ptr<f16, StorageBuffer> -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-14: a Memory Operand is given without a Stride; add the Stride or remove the Memory Operand

// -----

%p, %a = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>)
spirv.KHR.CooperativeMatrixStore %p, %a, @layout, <Aligned>, 4 : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-14: a Memory Operand is given without a Stride
