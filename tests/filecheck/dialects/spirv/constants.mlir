// RUN: XDSL_ROUNDTRIP

spirv.module Logical Vulkan {
  spirv.SpecConstant @i spec_id(0) = 16 : i32
  spirv.SpecConstant @f = 1.5 : f32
  spirv.SpecConstant @b spec_id(7) = true
  spirv.SpecConstantComposite @array (@i, @i) : !spirv.array<2 x i32>
  spirv.SpecConstantComposite @vector (@f, @f, @f) : vector<3xf32>
  spirv.SpecConstantComposite @struct (@i, @f, @b) : !spirv.struct<(i32, f32, i1)>
  spirv.func @scalars() "None" {
    %0 = spirv.Constant true
    %1 = spirv.Constant -5 : i32
    %2 = spirv.Constant 200 : i8
    %3 = spirv.Constant 5 : si32
    %4 = spirv.Constant 1.5 : bf16
    %5 = spirv.Constant 0x7F800000 : f32
    %6 = spirv.Constant 0xFC00 : f16
    spirv.Return
  }
  spirv.func @composites() "None" {
    %0 = spirv.Constant dense<[2.0, 3.0]> : vector<2xf32>
    %1 = spirv.Constant dense<3> : vector<4xi32>
    %2 = spirv.Constant dense<[true, false]> : vector<2xi1>
    %3 = spirv.Constant [dense<3.0> : vector<2xf32>] : !spirv.array<1 x vector<2xf32>>
    %4 = spirv.Constant dense<[1, 2]> : tensor<2xi32> : !spirv.array<2 x i32>
    %5 = spirv.Constant [1 : i32, 2 : i32] : !spirv.array<2 x i32>
    %6 = spirv.Constant [[1 : i32], [2 : i32]] : !spirv.array<2 x !spirv.array<1 x i32>>
    spirv.Return
  }
  spirv.func @specialized() "None" {
    %0 = spirv.mlir.referenceof @i : i32
    %1 = spirv.SpecConstantOperation wraps "spirv.IAdd"(%0, %0) : (i32, i32) -> i32
    %2 = spirv.SpecConstantOperation wraps "spirv.INotEqual"(%1, %0) : (i32, i32) -> i1
    %3 = spirv.mlir.referenceof @struct : !spirv.struct<(i32, f32, i1)>
    %4 = spirv.Undef : !spirv.array<2 x f32>
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.SpecConstant @i spec_id(0) = 16 : i32
// CHECK-NEXT:     spirv.SpecConstant @f = 1.500000e+00 : f32
// CHECK-NEXT:     spirv.SpecConstant @b spec_id(7) = true
// CHECK-NEXT:     spirv.SpecConstantComposite @array (@i, @i) : !spirv.array<2 x i32>
// CHECK-NEXT:     spirv.SpecConstantComposite @vector (@f, @f, @f) : vector<3xf32>
// CHECK-NEXT:     spirv.SpecConstantComposite @struct (@i, @f, @b) : !spirv.struct<(i32, f32, i1)>
// CHECK-NEXT:     spirv.func @scalars() "None" {
// CHECK-NEXT:       %0 = spirv.Constant true
// CHECK-NEXT:       %1 = spirv.Constant -5 : i32
// CHECK-NEXT:       %2 = spirv.Constant -56 : i8
// CHECK-NEXT:       %3 = spirv.Constant 5 : si32
// CHECK-NEXT:       %4 = spirv.Constant 1.500000e+00 : bf16
// CHECK-NEXT:       %5 = spirv.Constant 0x7f800000 : f32
// CHECK-NEXT:       %6 = spirv.Constant 0xfc00 : f16
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.func @composites() "None" {
// CHECK-NEXT:       %0 = spirv.Constant dense<[2.000000e+00, 3.000000e+00]> : vector<2xf32>
// CHECK-NEXT:       %1 = spirv.Constant dense<3> : vector<4xi32>
// CHECK-NEXT:       %2 = spirv.Constant dense<[true, false]> : vector<2xi1>
// CHECK-NEXT:       %3 = spirv.Constant [dense<3.000000e+00> : vector<2xf32>] : !spirv.array<1 x vector<2xf32>>
// CHECK-NEXT:       %4 = spirv.Constant dense<[1, 2]> : tensor<2xi32> : !spirv.array<2 x i32>
// CHECK-NEXT:       %5 = spirv.Constant [1 : i32, 2 : i32] : !spirv.array<2 x i32>
// CHECK-NEXT:       %6 = spirv.Constant {{\[\[}}1 : i32], [2 : i32]] : !spirv.array<2 x !spirv.array<1 x i32>>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.func @specialized() "None" {
// CHECK-NEXT:       %0 = spirv.mlir.referenceof @i : i32
// CHECK-NEXT:       %1 = spirv.SpecConstantOperation wraps "spirv.IAdd"(%0, %0) : (i32, i32) -> i32
// CHECK-NEXT:       %2 = spirv.SpecConstantOperation wraps "spirv.INotEqual"(%1, %0) : (i32, i32) -> i1
// CHECK-NEXT:       %3 = spirv.mlir.referenceof @struct : !spirv.struct<(i32, f32, i1)>
// CHECK-NEXT:       %4 = spirv.Undef : !spirv.array<2 x f32>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// Infinities and NaNs of a dense literal are bit patterns.
spirv.func @patterns() "None" {
  %0 = spirv.Constant dense<[0xFF800000, 0x7F800000]> : vector<2xf32>
  %1 = spirv.Constant dense<0xFF80> : vector<2xbf16>
  %2 = spirv.Constant dense<"0x000080BF00004040"> : vector<2xf32>
  spirv.Return
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.func @patterns() "None" {
// CHECK-NEXT:     %0 = spirv.Constant dense<[0xff800000, 0x7f800000]> : vector<2xf32>
// CHECK-NEXT:     %1 = spirv.Constant dense<0xff80> : vector<2xbf16>
// CHECK-NEXT:     %2 = spirv.Constant dense<[-1.000000e+00, 3.000000e+00]> : vector<2xf32>
// CHECK-NEXT:     spirv.Return
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// A constant of a cooperative matrix has one constituent.
// MLIR-CUSTOM-ONLY: the generic syntax of MLIR has a dense attribute here, xDSL takes none.
spirv.func @matrices() "None" {
  %0 = spirv.Constant dense<0.0> : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
  %1 = spirv.Constant dense<-1> : !spirv.coopmatrix<16x32xi8, Subgroup, MatrixA>
  spirv.Return
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.func @matrices() "None" {
// CHECK-NEXT:     %0 = spirv.Constant dense<0.000000e+00> : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NEXT:     %1 = spirv.Constant dense<-1> : !spirv.coopmatrix<16x32xi8, Subgroup, MatrixA>
// CHECK-NEXT:     spirv.Return
// CHECK-NEXT:   }
// CHECK-NEXT: }
