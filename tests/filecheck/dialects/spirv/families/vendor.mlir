// RUN: XDSL_ROUNDTRIP

// EXTENSION: SPV_NV_cooperative_matrix.
spirv.module Logical GLSL450 {
  spirv.GlobalVariable @w bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @main() "None" {
    %0 = spirv.Constant 0 : i32
    %st = spirv.Constant 16 : i32
    %f = spirv.Constant false
    %p = spirv.mlir.addressof @w : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %w = spirv.AccessChain %p[%0, %0] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %a = spirv.NV.CooperativeMatrixLoad %w, %st, %f : !spirv.ptr<f16, StorageBuffer>, i32, i1 -> !spirv.NV.coopmatrix<16x8xf16, Subgroup>
    %b = spirv.NV.CooperativeMatrixLoad %w, %st, %f ["Aligned", 16] : !spirv.ptr<f16, StorageBuffer>, i32, i1 -> !spirv.NV.coopmatrix<8x8xf16, Subgroup>
    %c = spirv.ConstantNull : !spirv.NV.coopmatrix<16x8xf32, Subgroup>
    %d = spirv.NV.CooperativeMatrixMulAdd %a, %b, %c : !spirv.NV.coopmatrix<16x8xf16, Subgroup>, !spirv.NV.coopmatrix<8x8xf16, Subgroup> -> !spirv.NV.coopmatrix<16x8xf32, Subgroup>
    %n = spirv.NV.CooperativeMatrixLength : !spirv.NV.coopmatrix<16x8xf32, Subgroup>
    spirv.NV.CooperativeMatrixStore %w, %a, %st, %f : !spirv.ptr<f16, StorageBuffer>, !spirv.NV.coopmatrix<16x8xf16, Subgroup>, i32, i1
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical GLSL450 {
// CHECK-NEXT:     spirv.GlobalVariable @w bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %0 = spirv.Constant 0 : i32
// CHECK-NEXT:       %st = spirv.Constant 16 : i32
// CHECK-NEXT:       %f = spirv.Constant false
// CHECK-NEXT:       %p = spirv.mlir.addressof @w : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
// CHECK-NEXT:       %w = spirv.AccessChain %p[%0, %0] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
// CHECK-NEXT:       %a = spirv.NV.CooperativeMatrixLoad %w, %st, %f : !spirv.ptr<f16, StorageBuffer>, i32, i1 -> !spirv.NV.coopmatrix<16x8xf16, Subgroup>
// CHECK-NEXT:       %b = spirv.NV.CooperativeMatrixLoad %w, %st, %f ["Aligned", 16] : !spirv.ptr<f16, StorageBuffer>, i32, i1 -> !spirv.NV.coopmatrix<8x8xf16, Subgroup>
// CHECK-NEXT:       %c = spirv.ConstantNull : !spirv.NV.coopmatrix<16x8xf32, Subgroup>
// CHECK-NEXT:       %d = spirv.NV.CooperativeMatrixMulAdd %a, %b, %c : !spirv.NV.coopmatrix<16x8xf16, Subgroup>, !spirv.NV.coopmatrix<8x8xf16, Subgroup> -> !spirv.NV.coopmatrix<16x8xf32, Subgroup>
// CHECK-NEXT:       %n = spirv.NV.CooperativeMatrixLength : !spirv.NV.coopmatrix<16x8xf32, Subgroup>
// CHECK-NEXT:       spirv.NV.CooperativeMatrixStore %w, %a, %st, %f : !spirv.ptr<f16, StorageBuffer>, !spirv.NV.coopmatrix<16x8xf16, Subgroup>, i32, i1
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: SPV_VALVE_mixed_float_dot_product.
// SINCE: SPIRV-Tools 2026.2
spirv.module Logical Vulkan {
  spirv.func @main() "None" {
    %h = spirv.Constant dense<1.0> : vector<2xf16>
    %b = spirv.Constant dense<1.0> : vector<2xbf16>
    %e = spirv.Constant dense<1.0> : vector<4xf8E4M3FN>
    %f = spirv.Constant 0.0 : f32
    %g = spirv.Constant 0.0 : f16
    %i = spirv.Constant 0.0 : bf16
    %0 = spirv.VALVE.FDot2MixAcc32 %h, %h, %f : vector<2xf16> -> f32
    %1 = spirv.VALVE.FDot2MixAcc32 %b, %b, %f : vector<2xbf16> -> f32
    %2 = spirv.VALVE.FDot2MixAcc16 %h, %h, %g : vector<2xf16> -> f16
    %3 = spirv.VALVE.FDot2MixAcc16 %b, %b, %i : vector<2xbf16> -> bf16
    %4 = spirv.VALVE.FDot4MixAcc32 %e, %e, %f : vector<4xf8E4M3FN> -> f32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %h = spirv.Constant dense<1.000000e+00> : vector<2xf16>
// CHECK-NEXT:       %b = spirv.Constant dense<1.000000e+00> : vector<2xbf16>
// CHECK-NEXT:       %e = spirv.Constant dense<1.000000e+00> : vector<4xf8E4M3FN>
// CHECK-NEXT:       %f = spirv.Constant 0.000000e+00 : f32
// CHECK-NEXT:       %g = spirv.Constant 0.000000e+00 : f16
// CHECK-NEXT:       %i = spirv.Constant 0.000000e+00 : bf16
// CHECK-NEXT:       %0 = spirv.VALVE.FDot2MixAcc32 %h, %h, %f : vector<2xf16> -> f32
// CHECK-NEXT:       %1 = spirv.VALVE.FDot2MixAcc32 %b, %b, %f : vector<2xbf16> -> f32
// CHECK-NEXT:       %2 = spirv.VALVE.FDot2MixAcc16 %h, %h, %g : vector<2xf16> -> f16
// CHECK-NEXT:       %3 = spirv.VALVE.FDot2MixAcc16 %b, %b, %i : vector<2xbf16> -> bf16
// CHECK-NEXT:       %4 = spirv.VALVE.FDot4MixAcc32 %e, %e, %f : vector<4xf8E4M3FN> -> f32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: SPV_QCOM_cooperative_matrix_conversion.
// SINCE: SPIRV-Tools 2026.2
spirv.module Logical Vulkan {
  spirv.func @main() "None" {
    %z = spirv.Constant 0 : i32
    %a = spirv.ConstantNull : !spirv.array<8 x i32>
    %0 = spirv.QCOM.BitCastArray %a : !spirv.array<8 x i32> to !spirv.array<16 x f16>
    %1 = spirv.QCOM.CompositeConstructCoopMat %0 : !spirv.array<16 x f16> to !spirv.coopmatrix<64x16xf16, Subgroup, MatrixA>
    %2 = spirv.QCOM.CompositeExtractCoopMat %1 : !spirv.coopmatrix<64x16xf16, Subgroup, MatrixA> to !spirv.array<16 x f16>
    %3 = spirv.QCOM.ExtractSubArray %2[%z] : !spirv.array<16 x f16>, i32 -> !spirv.array<8 x f16>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %z = spirv.Constant 0 : i32
// CHECK-NEXT:       %a = spirv.ConstantNull : !spirv.array<8 x i32>
// CHECK-NEXT:       %0 = spirv.QCOM.BitCastArray %a : !spirv.array<8 x i32> to !spirv.array<16 x f16>
// CHECK-NEXT:       %1 = spirv.QCOM.CompositeConstructCoopMat %0 : !spirv.array<16 x f16> to !spirv.coopmatrix<64x16xf16, Subgroup, MatrixA>
// CHECK-NEXT:       %2 = spirv.QCOM.CompositeExtractCoopMat %1 : !spirv.coopmatrix<64x16xf16, Subgroup, MatrixA> to !spirv.array<16 x f16>
// CHECK-NEXT:       %3 = spirv.QCOM.ExtractSubArray %2[%z] : !spirv.array<16 x f16>, i32 -> !spirv.array<8 x f16>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: a multiply-add of bfloat16.
// SINCE: SPIRV-Tools 2026.2
spirv.module Logical Vulkan {
  spirv.func @main() "None" {
    %b = spirv.Constant 1.0 : bf16
    %c = spirv.Constant 1.0 : f32
    %0 = spirv.QCOM.BFloat16MulAdd %b, %b, %c : bf16 -> f32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %b = spirv.Constant 1.000000e+00 : bf16
// CHECK-NEXT:       %c = spirv.Constant 1.000000e+00 : f32
// CHECK-NEXT:       %0 = spirv.QCOM.BFloat16MulAdd %b, %b, %c : bf16 -> f32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }
