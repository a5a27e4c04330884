// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-07: objects that hold a cooperative matrix live in Function or Private storage only.

spirv.GlobalVariable @m : !spirv.ptr<!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, Private>
spirv.func @f() "None" {
  %0 = spirv.Variable : !spirv.ptr<!spirv.array<2 x !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>>, Function>
  spirv.Return
}
// CHECK: spirv.GlobalVariable @m : !spirv.ptr<!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, Private>
// CHECK: spirv.Variable : !spirv.ptr<!spirv.array<2 x !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>>, Function>
// CHECK-NOT: CM-07:
// CHECK: {{^//}} -----

// -----

spirv.GlobalVariable @m : !spirv.ptr<!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, Workgroup>
// CHECK: CM-07: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> holds a cooperative matrix, which Workgroup storage cannot hold; use Function or Private storage

// -----

spirv.GlobalVariable @m : !spirv.ptr<!spirv.struct<(!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> [0])>, StorageBuffer>
// CHECK: CM-07: !spirv.struct<{{.*}} holds a cooperative matrix, which StorageBuffer storage cannot hold

// -----

spirv.GlobalVariable @m : !spirv.ptr<!spirv.struct<(f32, !spirv.array<2 x !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>>)>, Workgroup>
// CHECK: CM-07: !spirv.struct<{{.*}} holds a cooperative matrix, which Workgroup storage cannot hold
