// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-05: Scope, Rows and Columns are 32-bit integer constants; specialization constants are allowed.

"test.op"() {type = !spirv.coopmatrix<1x65536xf16, Subgroup, MatrixA>} : () -> ()
// CHECK: !spirv.coopmatrix<1x65536xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-05:
// CHECK: {{^//}} -----

// -----

spirv.module Logical Vulkan {
  spirv.SpecConstant @M spec_id(0) = 16 : i32
  spirv.SpecConstant @N spec_id(1) = 8 : i32
  spirv.SpecConstant @scope spec_id(2) = 3 : i32
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<@M x @N x f16, @scope, MatrixA>
    spirv.Return
  }
}
// CHECK: spirv.Undef : !spirv.coopmatrix<@M x @N x f16, @scope, MatrixA>
// CHECK-NOT: CM-05:
// CHECK: {{^//}} -----

// -----

"test.op"() {type = !spirv.coopmatrix<0x8xf16, Subgroup, MatrixA>} : () -> ()
// CHECK: CM-05: a cooperative matrix's rows must be a 32-bit integer of at least 1, not 0; give a number, or a specialization constant's @name

// -----

"test.op"() {type = !spirv.coopmatrix<8x4294967296xf16, Subgroup, MatrixA>} : () -> ()
// CHECK: CM-05: a cooperative matrix's columns must be a 32-bit integer of at least 1, not 4294967296

// -----

spirv.module Logical Vulkan {
  spirv.SpecConstant @M spec_id(0) = 16 : i64
  spirv.SpecConstant @N spec_id(1) = 8 : i32
  spirv.SpecConstant @scope spec_id(2) = 3 : i32
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<@M x @N x f16, @scope, MatrixA>
    spirv.Return
  }
}
// CHECK: CM-05: the rows of !spirv.coopmatrix<@M x @N x f16, @scope, MatrixA> must come from a 32-bit integer constant, but @M is 16 : i64

// -----

spirv.module Logical Vulkan {
  spirv.SpecConstant @M spec_id(0) = 16 : i32
  spirv.SpecConstant @scope spec_id(2) = 3 : i32
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<@M x @N x f16, @scope, MatrixA>
    spirv.Return
  }
}
// CHECK: CM-05: the columns of {{.*}} must come from a 32-bit integer constant, but @N does not exist; declare `spirv.SpecConstant @N spec_id(0) = 16 : i32` in the module

// -----

spirv.module Logical Vulkan {
  spirv.SpecConstant @M spec_id(0) = 16 : i32
  spirv.SpecConstant @N spec_id(1) = 8 : i32
  spirv.SpecConstant @scope = 3.0 : f32
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<@M x @N x f16, @scope, MatrixA>
    spirv.Return
  }
}
// CHECK: CM-05: the scope of {{.*}} must come from a 32-bit integer constant, but @scope is 3.000000e+00 : f32

// -----

spirv.module Logical Vulkan {
  spirv.SpecConstant @N spec_id(1) = 8 : i32
  spirv.SpecConstant @scope spec_id(2) = 3 : i32
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.array<2 x !spirv.coopmatrix<@M x @N x f16, @scope, MatrixA>>
    spirv.Return
  }
}
// CHECK: CM-05: the rows of {{.*}} but @M does not exist
