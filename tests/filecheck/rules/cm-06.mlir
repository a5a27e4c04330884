// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-06: Use is MatrixA, MatrixB or MatrixAccumulator.

"test.op"() {type = !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>} : () -> ()
// CHECK: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-06:
// CHECK: {{^//}} -----

// -----

"test.op"() {type = !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>} : () -> ()
// CHECK: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>
// CHECK-NOT: CM-06:
// CHECK: {{^//}} -----

// -----

"test.op"() {type = !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>} : () -> ()
// CHECK: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
// CHECK-NOT: CM-06:
// CHECK: {{^//}} -----

// -----

// Khronos' own names are read, MLIR's are printed.
"test.op"() {type = !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAccumulatorKHR>} : () -> ()
// CHECK: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
// CHECK-NOT: CM-06:
// CHECK: {{^//}} -----

// -----

"test.op"() {type = !spirv.coopmatrix<16x16xf16, Subgroup, MatrixC>} : () -> ()
// CHECK: CM-06: 'MatrixC' is not a CooperativeMatrixUse

// -----

"test.op"() {type = !spirv.coopmatrix<16x16xf16, Subgroup, MatrixD>} : () -> ()
// CHECK: CM-06: 'MatrixD' is not a CooperativeMatrixUse
