// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// ROT-03: a scalar or vector of floats, integers or Booleans rotates, and the result has its type.

%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i32 -> f32
// CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i32 -> f32
// CHECK-NOT: ROT-03:
// CHECK: {{^//}} -----

// -----

%v, %d = "test.op"() : () -> (i1, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : i1, i32 -> i1
// CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : i1, i32 -> i1
// CHECK-NOT: ROT-03:
// CHECK: {{^//}} -----

// -----

%v, %d = "test.op"() : () -> (vector<3xf16>, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : vector<3xf16>, i32 -> vector<3xf16>
// CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : vector<3xf16>, i32 -> vector<3xf16>
// CHECK-NOT: ROT-03:
// CHECK: {{^//}} -----

// -----

%v, %d = "test.op"() : () -> (vector<2xi64>, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : vector<2xi64>, i32 -> vector<2xi64>
// CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : vector<2xi64>, i32 -> vector<2xi64>
// CHECK-NOT: ROT-03:
// CHECK: {{^//}} -----

// -----

%v, %d = "test.op"() : () -> (!spirv.array<4 x f32>, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : !spirv.array<4 x f32>, i32 -> !spirv.array<4 x f32>
// CHECK: ROT-03: the value must be a scalar or vector of floats, integers or Booleans, not !spirv.array<4 x f32>; rotate its components

// -----

%v, %d = "test.op"() : () -> (!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: ROT-03: the value must be a scalar or vector of floats, integers or Booleans, not !spirv.coopmatrix

// -----

%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i32 -> i32
// CHECK: ROT-03: the result must have the type of the value f32, not i32; convert the result afterwards
