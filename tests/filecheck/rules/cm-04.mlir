// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-04: the component type is a scalar numerical type.

"test.op"() {type = !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>} : () -> ()
// CHECK: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-04:
// CHECK: {{^//}} -----

// -----

"test.op"() {type = !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>} : () -> ()
// CHECK: !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>
// CHECK-NOT: CM-04:
// CHECK: {{^//}} -----

// -----

"test.op"() {type = !spirv.coopmatrix<16x16xf64, Subgroup, MatrixA>} : () -> ()
// CHECK: !spirv.coopmatrix<16x16xf64, Subgroup, MatrixA>
// CHECK-NOT: CM-04:
// CHECK: {{^//}} -----

// -----

"test.op"() {type = !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>} : () -> ()
// CHECK: !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK-NOT: CM-04:
// CHECK: {{^//}} -----

// -----

"test.op"() {type = !spirv.coopmatrix<16x16xsi32, Subgroup, MatrixA>} : () -> ()
// CHECK: !spirv.coopmatrix<16x16xsi32, Subgroup, MatrixA>
// CHECK-NOT: CM-04:
// CHECK: {{^//}} -----

// -----

"test.op"() {type = !spirv.coopmatrix<16x16xf8E4M3FN, Subgroup, MatrixA>} : () -> ()
// CHECK: !spirv.coopmatrix<16x16xf8E4M3FN, Subgroup, MatrixA>
// CHECK-NOT: CM-04:
// CHECK: {{^//}} -----

// -----

"test.op"() {type = !spirv.coopmatrix<16x16xi1, Subgroup, MatrixA>} : () -> ()
// CHECK: CM-04: a cooperative matrix's component type must be a scalar numerical type, not i1; use an integer or floating-point type

// -----

"test.op"() {type = !spirv.coopmatrix<16x16xvector<4xf16>, Subgroup, MatrixA>} : () -> ()
// CHECK: CM-04: a cooperative matrix's component type must be a scalar numerical type, not vector<4xf16>; use an integer or floating-point type

// -----

"test.op"() {type = !spirv.coopmatrix<16x16x!spirv.ptr<f16, Function>, Subgroup, MatrixA>} : () -> ()
// CHECK: CM-04: a cooperative matrix's component type must be a scalar numerical type, not !spirv.ptr<f16, Function>; use an integer or floating-point type

// -----

"test.op"() {type = !spirv.coopmatrix<16x16x!spirv.array<4 x f16>, Subgroup, MatrixA>} : () -> ()
// CHECK: CM-04: a cooperative matrix's component type must be a scalar numerical type, not !spirv.array<4 x f16>; use an integer or floating-point type

// -----

"test.op"() {type = !spirv.coopmatrix<16x16xindex, Subgroup, MatrixA>} : () -> ()
// CHECK: CM-04: a cooperative matrix's component type must be a scalar numerical type, not index; use an integer or floating-point type
