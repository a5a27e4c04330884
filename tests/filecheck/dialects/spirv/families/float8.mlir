// RUN: XDSL_ROUNDTRIP

// EXTENSION: SPV_EXT_float8.
spirv.module Logical Vulkan {
  spirv.func @main() "None" {
    %st = spirv.Constant 16 : i32
    %h = spirv.Constant 1.5 : f16
    %v = spirv.Constant dense<2.0> : vector<4xf32>
    %0 = spirv.FConvert %h : f16 to f8E4M3FN
    %1 = spirv.FConvert %h {saturated_to_largest_float8_normal_conversion_ext} : f16 to f8E5M2
    %2 = spirv.FConvert %v : vector<4xf32> to vector<4xf8E5M2>
    %3 = spirv.FConvert %0 : f8E4M3FN to f32
    %4 = spirv.Bitcast %0 : f8E4M3FN to i8
    %a = spirv.Constant dense<1.0> : !spirv.coopmatrix<16x32xf8E4M3FN, Subgroup, MatrixA>
    %b = spirv.Constant dense<1.0> : !spirv.coopmatrix<32x16xf8E5M2, Subgroup, MatrixB>
    %c = spirv.Constant dense<0.0> : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %5 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf8E4M3FN, Subgroup, MatrixA>, !spirv.coopmatrix<32x16xf8E5M2, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %6 = spirv.FConvert %5 {saturated_to_largest_float8_normal_conversion_ext} : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf8E4M3FN, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %st = spirv.Constant 16 : i32
// CHECK-NEXT:       %h = spirv.Constant 1.500000e+00 : f16
// CHECK-NEXT:       %v = spirv.Constant dense<2.000000e+00> : vector<4xf32>
// CHECK-NEXT:       %0 = spirv.FConvert %h : f16 to f8E4M3FN
// CHECK-NEXT:       %1 = spirv.FConvert %h {saturated_to_largest_float8_normal_conversion_ext} : f16 to f8E5M2
// CHECK-NEXT:       %2 = spirv.FConvert %v : vector<4xf32> to vector<4xf8E5M2>
// CHECK-NEXT:       %3 = spirv.FConvert %0 : f8E4M3FN to f32
// CHECK-NEXT:       %4 = spirv.Bitcast %0 : f8E4M3FN to i8
// CHECK-NEXT:       %a = spirv.Constant dense<1.000000e+00> : !spirv.coopmatrix<16x32xf8E4M3FN, Subgroup, MatrixA>
// CHECK-NEXT:       %b = spirv.Constant dense<1.000000e+00> : !spirv.coopmatrix<32x16xf8E5M2, Subgroup, MatrixB>
// CHECK-NEXT:       %c = spirv.Constant dense<0.000000e+00> : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NEXT:       %5 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<16x32xf8E4M3FN, Subgroup, MatrixA>, !spirv.coopmatrix<32x16xf8E5M2, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NEXT:       %6 = spirv.FConvert %5 {saturated_to_largest_float8_normal_conversion_ext} : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf8E4M3FN, Subgroup, MatrixAcc>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }
