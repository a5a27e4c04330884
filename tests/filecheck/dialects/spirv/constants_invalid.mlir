// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// A value of another type.
spirv.func @f() "None" {
  %0 = "spirv.Constant"() <{value = 1 : i32}> : () -> f32
  spirv.Return
}
// CHECK: Operation does not verify: a value of type i32 cannot be a constant of type f32

// -----

// A value that is not a number.
spirv.func @f() "None" {
  %0 = "spirv.Constant"() <{value = "text"}> : () -> f32
  spirv.Return
}
// CHECK: Operation does not verify: "text" cannot be a constant: write a number, a dense literal or an array

// -----

// Too few constituents.
spirv.func @f() "None" {
  %0 = spirv.Constant [1 : i32] : !spirv.array<2 x i32>
  spirv.Return
}
// CHECK: Operation does not verify: !spirv.array<2 x i32> has 2 constituents, but 1 are given

// -----

// A constituent of another type.
spirv.func @f() "None" {
  %0 = spirv.Constant [1 : i32, 2.0 : f32] : !spirv.array<2 x i32>
  spirv.Return
}
// CHECK: Operation does not verify: a value of type f32 cannot be a constant of type i32

// -----

// A dense value of another shape.
spirv.func @f() "None" {
  %0 = spirv.Constant dense<[1, 2, 3]> : tensor<3xi32> : !spirv.array<2 x i32>
  spirv.Return
}
// CHECK: Operation does not verify: a dense value of shape [3] cannot fill !spirv.array<2 x i32>: its shape is [2]

// -----

// A dense vector of another length.
spirv.func @f() "None" {
  %0 = spirv.Constant dense<[1, 2, 3]> : vector<2xi32>
  spirv.Return
}
// CHECK: a dense value of shape [3] cannot be of type vector<2xi32>

// -----

// A list for a scalar.
spirv.func @f() "None" {
  %0 = spirv.Constant [1 : i32] : i32
  spirv.Return
}
// CHECK: Operation does not verify: a list of values cannot be a constant of type i32

// -----

// A dense value for a scalar.
spirv.func @f() "None" {
  %0 = spirv.Constant dense<1> : i32
  spirv.Return
}
// CHECK: a dense value must have a vector, tensor or cooperative matrix type, not i32

// -----

// A number that is too large.
spirv.func @f() "None" {
  %0 = spirv.Constant dense<300> : vector<2xi8>
  spirv.Return
}
// CHECK: Integer value 300 is out of range for type i8 which supports values in the range [-128, 256)

// -----

// A number of the wrong kind.
spirv.func @f() "None" {
  %0 = spirv.Constant dense<1.5> : vector<2xi32>
  spirv.Return
}
// CHECK: 1.5 is not a value of i32: write an integer

// -----

// Rows of different length.
spirv.func @f() "None" {
  %0 = spirv.Constant dense<[[1, 2], [3]]> : tensor<2x2xi32> : !spirv.array<2 x !spirv.array<2 x i32>>
  spirv.Return
}
// CHECK: the rows of a dense value must have one length

// -----

// A string that is not hexadecimal.
spirv.func @f() "None" {
  %0 = spirv.Constant dense<"0xZZ"> : vector<2xi8>
  spirv.Return
}
// CHECK: a dense value's string must be hexadecimal

// -----

// More than one value for a cooperative matrix.
spirv.func @f() "None" {
  %0 = spirv.Constant dense<[1, 2]> : !spirv.coopmatrix<8x8xi32, Subgroup, MatrixAcc>
  spirv.Return
}
// CHECK: CM-08: a constant cooperative matrix must have a single value for all components; write dense<0.0>, say

// -----

// A specialization constant that is not a number.
spirv.SpecConstant @c = "text"
// CHECK: a specialization constant must be a number or Boolean

// -----

// A constituent that does not exist.
spirv.module Logical Vulkan {
  spirv.SpecConstantComposite @v (@x, @x) : vector<2xf32>
}
@x is not a specialization constant of the module: declare spirv.SpecConstant @x

// -----

// A constituent of another type.
spirv.module Logical Vulkan {
  spirv.SpecConstant @x = 1 : i32
  spirv.SpecConstantComposite @v (@x, @x) : vector<2xf32>
}
// CHECK: Operation does not verify: @x has type i32, but f32 is needed here

// -----

// A composite of a scalar type.
spirv.module Logical Vulkan {
  spirv.SpecConstant @x = 1 : i32
  spirv.SpecConstantComposite @v (@x) : i32
}
// CHECK: Operation does not verify: i32 is not a composite type

// -----

// Two constituents of a cooperative matrix.
spirv.module Logical Vulkan {
  spirv.SpecConstant @x = 1 : i32
  spirv.SpecConstantComposite @v (@x, @x) : !spirv.coopmatrix<8x8xi32, Subgroup, MatrixAcc>
}
// CHECK: Operation does not verify: CM-08: !spirv.coopmatrix<8x8xi32, Subgroup, MatrixAcc> must have exactly one constituent, not 2

// -----

// A reference to an undefined symbol.
spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    %0 = spirv.mlir.referenceof @x : i32
    spirv.Return
  }
}
@x is not a specialization constant of the module: declare spirv.SpecConstant @x

// -----

// A reference with another type.
spirv.module Logical Vulkan {
  spirv.SpecConstant @x = 1 : i32
  spirv.func @f() "None" {
    %0 = spirv.mlir.referenceof @x : f32
    spirv.Return
  }
}
// CHECK: Operation does not verify: @x has type i32, but the result has type f32

// -----

// An operation that cannot be specialized.
spirv.module Logical Vulkan {
  spirv.SpecConstant @x = 1.0 : f32
  spirv.func @f() "None" {
    %0 = spirv.mlir.referenceof @x : f32
    %1 = spirv.SpecConstantOperation wraps "spirv.FAdd"(%0, %0) : (f32, f32) -> f32
    spirv.Return
  }
}
// CHECK: Operation does not verify: spirv.FAdd cannot be evaluated at specialization

// -----

// An operand that is not constant.
spirv.module Logical Vulkan {
  spirv.func @f(%x: i32) "None" {
    %1 = spirv.SpecConstantOperation wraps "spirv.IAdd"(%x, %x) : (i32, i32) -> i32
    spirv.Return
  }
}
// CHECK: Operation does not verify: an operand of a spirv.SpecConstantOperation must be a constant, a specialization constant or another spirv.SpecConstantOperation

// -----

// A yield outside of a specialization constant's operation.
spirv.func @f(%x: i32) "None" {
  spirv.mlir.yield %x : i32
}
// CHECK: Operation does not verify: 'spirv.mlir.yield' expects parent op 'spirv.SpecConstantOperation'
