// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-17: the length is that of a cooperative matrix type, a 32-bit unsigned integer.

%0 = spirv.KHR.CooperativeMatrixLength : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
%1 = "spirv.KHR.CooperativeMatrixLength"() <{cooperative_matrix_type = !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>}> : () -> ui32
// CHECK: %0 = spirv.KHR.CooperativeMatrixLength : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-17:
// CHECK: {{^//}} -----

// -----

%0 = spirv.KHR.CooperativeMatrixLength : vector<4xf16>
// CHECK: CM-17: the type must be a cooperative matrix type, not vector<4xf16>; name a !spirv.coopmatrix type

// -----

%0 = "spirv.KHR.CooperativeMatrixLength"() <{cooperative_matrix_type = !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>}> : () -> si32
// CHECK: CM-17: the length must be a 32-bit unsigned integer, not si32; make the result i32

// -----

%0 = "spirv.KHR.CooperativeMatrixLength"() <{cooperative_matrix_type = !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>}> : () -> i64
// CHECK: CM-17: the length must be a 32-bit unsigned integer, not i64
