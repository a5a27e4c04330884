// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-20: A is MxK MatrixA, B is KxN MatrixB, C and the result MxN MatrixAcc, all of one scope.

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK-NOT: CM-20:
// CHECK: {{^//}} -----

// -----

// Component types may differ, also between the result and C.
%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf16, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf16, Subgroup, MatrixAcc> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf16, Subgroup, MatrixAcc> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK-NOT: CM-20:
// CHECK: {{^//}} -----

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<@M x @K x f16, @scope, MatrixA>, !spirv.coopmatrix<@K x @N x f16, @scope, MatrixB>, !spirv.coopmatrix<@M x @N x f32, @scope, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<@M x @K x f16, @scope, MatrixA>, !spirv.coopmatrix<@K x @N x f16, @scope, MatrixB> -> !spirv.coopmatrix<@M x @N x f32, @scope, MatrixAcc>
// CHECK: spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<@M x @K x f16, @scope, MatrixA>, !spirv.coopmatrix<@K x @N x f16, @scope, MatrixB> -> !spirv.coopmatrix<@M x @N x f32, @scope, MatrixAcc>
// CHECK-NOT: CM-20:
// CHECK: {{^//}} -----

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: CM-20: K is 32 by A's columns and 16 by B's rows; A must be MxK, B KxN, C and the result MxN

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
// CHECK: CM-20: M is 16 by A's rows and 8 by C's rows

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: CM-20: N is 8 by B's columns and 16 by C's columns

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
// CHECK: CM-20: M is 16 by A's rows and 8 by the result's rows

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: CM-20: N is 8 by B's columns and 16 by the result's columns

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixB>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixB>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: CM-20: the use of A must be MatrixA, not MatrixB; load the matrix with the use MatrixA

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixAcc>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixAcc> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: CM-20: the use of B must be MatrixB, not MatrixAcc

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixA>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixA>
// CHECK: CM-20: the use of C must be MatrixAcc, not MatrixA

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixB>
// CHECK: CM-20: the use of the result must be MatrixAcc, not MatrixB

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Workgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Workgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: CM-20: A, B, C and the result must have one scope, but B is !spirv.coopmatrix<32x8xf16, Workgroup, MatrixB>

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x@K x f16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x@K x f16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: CM-20: K is @K by A's columns and 32 by B's rows

// -----

%a, %b, %v = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, vector<4xf32>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %v : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> vector<4xf32>
// CHECK: CM-20: C must be a cooperative matrix, not vector<4xf32>; load the matrix with spirv.KHR.CooperativeMatrixLoad
