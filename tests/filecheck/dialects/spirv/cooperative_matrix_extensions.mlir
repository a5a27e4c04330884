// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP

// EXTENSION: cooperative matrices beyond MLIR's syntax: a layout by specialization constant, with and without a
// MLIR lacks: stride; scopes of memory operands; a result of another type than C; bitcasts; integers times scalars.
spirv.func @f(%p: !spirv.ptr<f16, StorageBuffer>, %i: i32, %a: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, %b: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>, %c: !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, %x: !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, %s: i8) "None" {
  %r0 = spirv.KHR.CooperativeMatrixLoad %p, %i, @layout : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, @layout : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  %r1 = spirv.KHR.CooperativeMatrixLoad %p, @layout : !spirv.ptr<f16, StorageBuffer> -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK: spirv.KHR.CooperativeMatrixLoad %{{.*}}, @layout : !spirv.ptr<f16, StorageBuffer> -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK-GENERIC: "spirv.KHR.CooperativeMatrixLoad"(%{{.*}}) <{matrix_layout = @layout}> : (!spirv.ptr<f16, StorageBuffer>) -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  %r2 = spirv.KHR.CooperativeMatrixLoad %p, %i, @layout, <Aligned>, 16 : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, @layout, <Aligned>, 16 : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  %r3 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor>, <MakePointerVisible|NonPrivatePointer>, scope(<Workgroup>) : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <RowMajor>, <MakePointerVisible|NonPrivatePointer>, scope(<Workgroup>) : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK-GENERIC: memory_scope = #spirv.scope<Workgroup>
  %r4 = spirv.KHR.CooperativeMatrixLoad %p, %i, <RowMajor>, <Aligned|MakePointerVisible|NonPrivatePointer>, 16, scope(@scope) : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <RowMajor>, <Aligned|MakePointerVisible|NonPrivatePointer>, 16, scope(@scope) : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK-GENERIC: memory_scope = @scope
  spirv.KHR.CooperativeMatrixStore %p, %a, %i, @layout : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
  // CHECK: spirv.KHR.CooperativeMatrixStore %{{.*}}, %{{.*}}, %{{.*}}, @layout : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
  spirv.KHR.CooperativeMatrixStore %p, %a, @layout : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  // CHECK: spirv.KHR.CooperativeMatrixStore %{{.*}}, %{{.*}}, @layout : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
  spirv.KHR.CooperativeMatrixStore %p, %a, %i, <ColumnMajor>, <MakePointerAvailable|NonPrivatePointer>, scope(<Device>) : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
  // CHECK: spirv.KHR.CooperativeMatrixStore %{{.*}}, %{{.*}}, %{{.*}}, <ColumnMajor>, <MakePointerAvailable|NonPrivatePointer>, scope(<Device>) : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32
  // CHECK-GENERIC: memory_scope = #spirv.scope<Device>
  %r5 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
  // CHECK: spirv.KHR.CooperativeMatrixMulAdd %{{.*}}, %{{.*}}, %{{.*}} : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
  %r6 = spirv.Bitcast %x : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xsi8, Subgroup, MatrixA>
  // CHECK: spirv.Bitcast %{{.*}} : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xsi8, Subgroup, MatrixA>
  %r7 = spirv.MatrixTimesScalar %x, %s : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, i8
  // CHECK: spirv.MatrixTimesScalar %{{.*}}, %{{.*}} : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>, i8
  spirv.Return
}
