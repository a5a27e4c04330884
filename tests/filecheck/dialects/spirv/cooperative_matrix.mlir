// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP
// RUN: MLIR_ROUNDTRIP
// RUN: MLIR_GENERIC_ROUNDTRIP
// REQUIRES: mlir-opt

// SPV_KHR_cooperative_matrix with MLIR's syntax.
spirv.func @f(%p: !spirv.ptr<f16, StorageBuffer>, %q: !spirv.ptr<vector<4xf32>, Workgroup>, %i: i32, %l: i64, %a: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, %b: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>, %c: !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, %x: !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, %y: !spirv.coopmatrix<16x16xui8, Subgroup, MatrixB>, %z: !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>) "None" {
  %r0 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK-GENERIC: "spirv.KHR.CooperativeMatrixLoad"(%{{.*}}) <{matrix_layout = #spirv.coop_matrix_layout_khr<RowMajor>}> : (!spirv.ptr<f16, StorageBuffer>, i32) -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  %r1 = spirv.KHR.CooperativeMatrixLoad %q, %l, <ColumnMajor> : !spirv.ptr<vector<4xf32>, Workgroup>, i64 -> !spirv.coopmatrix<8x32xbf16, Workgroup, MatrixB>
  // CHECK: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <ColumnMajor> : !spirv.ptr<vector<4xf32>, Workgroup>, i64 -> !spirv.coopmatrix<8x32xbf16, Workgroup, MatrixB>
  %r2 = spirv.KHR.CooperativeMatrixLoad %p, %i, <ColumnMajor>, <Volatile> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
  // CHECK: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <ColumnMajor>, <Volatile> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
  // CHECK-GENERIC: #spirv.memory_access<Volatile>
  %r3 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor>, <Volatile|Aligned|Nontemporal|NonPrivatePointer>, 16 : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <RowMajor>, <Volatile|Aligned|Nontemporal|NonPrivatePointer>, 16 : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK-GENERIC: alignment = 16 : i32
  spirv.KHR.CooperativeMatrixStore %p, %a, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
  // CHECK: spirv.KHR.CooperativeMatrixStore %{{.*}}, %{{.*}}, %{{.*}}, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
  // CHECK-GENERIC: "spirv.KHR.CooperativeMatrixStore"(%{{.*}}) <{matrix_layout = #spirv.coop_matrix_layout_khr<RowMajor>}> : (!spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32) -> ()
  spirv.KHR.CooperativeMatrixStore %q, %c, %l, <ColumnMajor>, <Aligned>, 64 : !spirv.ptr<vector<4xf32>, Workgroup>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, i64
  // CHECK: spirv.KHR.CooperativeMatrixStore %{{.*}}, %{{.*}}, %{{.*}}, <ColumnMajor>, <Aligned>, 64 : !spirv.ptr<vector<4xf32>, Workgroup>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, i64
  spirv.KHR.CooperativeMatrixStore %p, %c, %i, <ColumnMajor>, <NonPrivatePointer> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, i32
  // CHECK: spirv.KHR.CooperativeMatrixStore %{{.*}}, %{{.*}}, %{{.*}}, <ColumnMajor>, <NonPrivatePointer> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, i32
  %r4 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
  // CHECK: spirv.KHR.CooperativeMatrixMulAdd %{{.*}}, %{{.*}}, %{{.*}} : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
  // CHECK-GENERIC: "spirv.KHR.CooperativeMatrixMulAdd"(%{{.*}}) : (!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>) -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
  %r5 = spirv.KHR.CooperativeMatrixMulAdd %x, %y, %z : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xui8, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
  // CHECK: spirv.KHR.CooperativeMatrixMulAdd %{{.*}}, %{{.*}}, %{{.*}} : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xui8, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
  %r6 = spirv.KHR.CooperativeMatrixMulAdd %x, %y, %z, <ASigned> : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xui8, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
  // CHECK: spirv.KHR.CooperativeMatrixMulAdd %{{.*}}, %{{.*}}, %{{.*}}, <ASigned> : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xui8, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
  // CHECK-GENERIC: <{matrix_operands = #spirv.cooperative_matrix_operands_khr<ASigned>}>
  %r7 = spirv.KHR.CooperativeMatrixMulAdd %x, %y, %z, <ASigned|BSigned|CSigned|ResultSigned|AccSat> : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xui8, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
  // CHECK: spirv.KHR.CooperativeMatrixMulAdd %{{.*}}, %{{.*}}, %{{.*}}, <ASigned|BSigned|CSigned|ResultSigned|AccSat> : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xui8, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
  // CHECK-GENERIC: <{matrix_operands = #spirv.cooperative_matrix_operands_khr<ASigned|BSigned|CSigned|ResultSigned|AccSat>}>
  %r8 = spirv.KHR.CooperativeMatrixLength : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
  // CHECK: spirv.KHR.CooperativeMatrixLength : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
  // CHECK-GENERIC: "spirv.KHR.CooperativeMatrixLength"() <{cooperative_matrix_type = !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>}> : () -> i32
  spirv.Return
}
