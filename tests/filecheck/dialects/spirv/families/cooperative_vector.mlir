// RUN: XDSL_ROUNDTRIP

// EXTENSION: SPV_NV_cooperative_vector.
spirv.module Logical Vulkan {
  spirv.SpecConstant @n spec_id(0) = 16 : i32
  spirv.GlobalVariable @w bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @main() "None" {
    %0 = spirv.Constant 0 : i32
    %st = spirv.Constant 64 : i32
    %p = spirv.mlir.addressof @w : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %w = spirv.AccessChain %p[%0] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32 -> !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>
    %x = spirv.NV.CooperativeVectorLoad %w[%0] : !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32 -> !spirv.coopvec<32 x f16>
    %x2 = spirv.NV.CooperativeVectorLoad %w[%0] ["Aligned", 16] : !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32 -> !spirv.coopvec<@n x f16>
    %y = spirv.NV.CooperativeVectorMatrixMul %x, %w[%0] (input_interpretation = Float16NV, matrix_interpretation = Float16NV, m = 16, k = 32, memory_layout = RowMajorNV, transpose = false) stride %st : !spirv.coopvec<32 x f16>, !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32, i32 -> !spirv.coopvec<16 x f16>
    %z = spirv.NV.CooperativeVectorMatrixMulAdd %x, %w[%0], %w[%0] (input_interpretation = Float16NV, matrix_interpretation = Float16NV, bias_interpretation = Float16NV, m = 16, k = 32, memory_layout = InferencingOptimalNV, transpose = false) : !spirv.coopvec<32 x f16>, !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32, !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32 -> !spirv.coopvec<16 x f16>
    %s = spirv.FAdd %y, %z : !spirv.coopvec<16 x f16>
    %t = spirv.GL.FMax %s, %y : !spirv.coopvec<16 x f16>
    %h = spirv.CompositeExtract %t[3 : i32] : !spirv.coopvec<16 x f16>
    %i = spirv.CompositeInsert %h, %t[0 : i32] : f16 into !spirv.coopvec<16 x f16>
    %k = spirv.ConstantNull : !spirv.coopvec<16 x f16>
    spirv.NV.CooperativeVectorStore %w[%0], %i : !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32, !spirv.coopvec<16 x f16>
    spirv.NV.CooperativeVectorStore %w[%0], %k ["Aligned", 16] : !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32, !spirv.coopvec<16 x f16>
    spirv.NV.CooperativeVectorOuterProductAccumulate %w[%0], %x, %y (memory_layout = TrainingOptimalNV, matrix_interpretation = Float16NV) : !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32, !spirv.coopvec<32 x f16>, !spirv.coopvec<16 x f16>
    spirv.NV.CooperativeVectorReduceSumAccumulate %w[%0], %y : !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32, !spirv.coopvec<16 x f16>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.SpecConstant @n spec_id(0) = 16 : i32
// CHECK-NEXT:     spirv.GlobalVariable @w bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %0 = spirv.Constant 0 : i32
// CHECK-NEXT:       %st = spirv.Constant 64 : i32
// CHECK-NEXT:       %p = spirv.mlir.addressof @w : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
// CHECK-NEXT:       %w = spirv.AccessChain %p[%0] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32 -> !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>
// CHECK-NEXT:       %x = spirv.NV.CooperativeVectorLoad %w[%0] : !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32 -> !spirv.coopvec<32 x f16>
// CHECK-NEXT:       %x2 = spirv.NV.CooperativeVectorLoad %w[%0] ["Aligned", 16] : !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32 -> !spirv.coopvec<@n x f16>
// CHECK-NEXT:       %y = spirv.NV.CooperativeVectorMatrixMul %x, %w[%0] (input_interpretation = Float16NV, matrix_interpretation = Float16NV, m = 16, k = 32, memory_layout = RowMajorNV, transpose = false) stride %st : !spirv.coopvec<32 x f16>, !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32, i32 -> !spirv.coopvec<16 x f16>
// CHECK-NEXT:       %z = spirv.NV.CooperativeVectorMatrixMulAdd %x, %w[%0], %w[%0] (input_interpretation = Float16NV, matrix_interpretation = Float16NV, bias_interpretation = Float16NV, m = 16, k = 32, memory_layout = InferencingOptimalNV, transpose = false) : !spirv.coopvec<32 x f16>, !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32, !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32 -> !spirv.coopvec<16 x f16>
// CHECK-NEXT:       %s = spirv.FAdd %y, %z : !spirv.coopvec<16 x f16>
// CHECK-NEXT:       %t = spirv.GL.FMax %s, %y : !spirv.coopvec<16 x f16>
// CHECK-NEXT:       %h = spirv.CompositeExtract %t[3 : i32] : !spirv.coopvec<16 x f16>
// CHECK-NEXT:       %i = spirv.CompositeInsert %h, %t[0 : i32] : f16 into !spirv.coopvec<16 x f16>
// CHECK-NEXT:       %k = spirv.ConstantNull : !spirv.coopvec<16 x f16>
// CHECK-NEXT:       spirv.NV.CooperativeVectorStore %w[%0], %i : !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32, !spirv.coopvec<16 x f16>
// CHECK-NEXT:       spirv.NV.CooperativeVectorStore %w[%0], %k ["Aligned", 16] : !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32, !spirv.coopvec<16 x f16>
// CHECK-NEXT:       spirv.NV.CooperativeVectorOuterProductAccumulate %w[%0], %x, %y (memory_layout = TrainingOptimalNV, matrix_interpretation = Float16NV) : !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32, !spirv.coopvec<32 x f16>, !spirv.coopvec<16 x f16>
// CHECK-NEXT:       spirv.NV.CooperativeVectorReduceSumAccumulate %w[%0], %y : !spirv.ptr<!spirv.rtarray<f16, stride=2>, StorageBuffer>, i32, !spirv.coopvec<16 x f16>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }
