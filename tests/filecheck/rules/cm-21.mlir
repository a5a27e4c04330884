// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-21: a SignedComponents bit is for a matrix of integers, SaturatingAccumulation for an integer result.

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xi8, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xui8, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xi32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <ASigned|BSigned|CSigned|ResultSigned|AccSat> : !spirv.coopmatrix<16x32xi8, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xui8, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xi32, Subgroup, MatrixAcc>
// CHECK: spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <ASigned|BSigned|CSigned|ResultSigned|AccSat> : !spirv.coopmatrix<16x32xi8, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xui8, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xi32, Subgroup, MatrixAcc>
// CHECK-NOT: CM-21:
// CHECK: {{^//}} -----

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xi8, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <ASigned> : !spirv.coopmatrix<16x32xi8, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <ASigned> : !spirv.coopmatrix<16x32xi8, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK-NOT: CM-21:
// CHECK: {{^//}} -----

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <None> : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <None> : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK-NOT: CM-21:
// CHECK: {{^//}} -----

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <ASigned> : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: CM-21: ASigned is for integers, but the components of A are f16; remove ASigned

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xi8, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <ASigned|BSigned> : !spirv.coopmatrix<16x32xi8, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: CM-21: BSigned is for integers, but the components of B are f16

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <CSigned> : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: CM-21: CSigned is for integers, but the components of C are f32

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <ResultSigned> : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: CM-21: ResultSigned is for integers, but the components of the result are f32

// -----

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB>, !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <AccSat> : !spirv.coopmatrix<16x32xf16, Subgroup, MatrixA>, !spirv.coopmatrix<32x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK: CM-21: AccSat is for integers, but the components of the result are f32
