// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-15: MakePointerAvailable is not for a load, MakePointerVisible not for a store.

%p, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, i32)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor>, <MakePointerVisible|NonPrivatePointer>, scope(<Workgroup>) : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor>, <MakePointerVisible|NonPrivatePointer>, scope(<Workgroup>) : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-15:
// CHECK: {{^//}} -----

// -----

%p, %a, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32)
spirv.KHR.CooperativeMatrixStore %p, %a, %i, <RowMajor>, <Aligned|MakePointerAvailable|NonPrivatePointer>, 16, scope(<Device>) : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
// CHECK: spirv.KHR.CooperativeMatrixStore %p, %a, %i, <RowMajor>, <Aligned|MakePointerAvailable|NonPrivatePointer>, 16, scope(<Device>) : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
// CHECK-NOT: CM-15:
// CHECK: {{^//}} -----

// -----

%p, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, i32)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor>, <MakePointerAvailable|NonPrivatePointer>, scope(<Workgroup>) : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-15: MakePointerAvailable is not for a load; use MakePointerVisible here

// -----

%p, %a, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32)
spirv.KHR.CooperativeMatrixStore %p, %a, %i, <RowMajor>, <MakePointerVisible|NonPrivatePointer>, scope(<Workgroup>) : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
// CHECK: CM-15: MakePointerVisible is not for a store; use MakePointerAvailable here

// -----

// The scope is a parameter of the memory operand (SPIR-V 3.26): MLIR leaves it out of the binary.
%p, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, i32)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor>, <MakePointerVisible|NonPrivatePointer> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: MakePointerAvailable and MakePointerVisible need a scope

// -----

%p, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, i32)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor>, <MakePointerVisible>, scope(<Workgroup>) : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: MakePointerAvailable and MakePointerVisible are for non-private pointers: add NonPrivatePointer

// -----

%p, %i = "test.op"() : () -> (!spirv.ptr<f16, StorageBuffer>, i32)
%0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor>, <Aligned> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: the memory operand Aligned and an alignment go together
