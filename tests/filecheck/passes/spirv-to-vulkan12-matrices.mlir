// RUN: xdsl-opt %s --split-input-file -p 'spirv-to-vulkan12{target=nvidia-h200 subgroup-size=32}' | filecheck %s --check-prefix=H200
// RUN: xdsl-opt %s --split-input-file -p 'spirv-to-vulkan12{target=lavapipe subgroup-size=32}' | filecheck %s --check-prefix=LAVAPIPE

// One device lists this MulAdd. The other has neither 16x16x16 matrices nor bfloat16, so both are replaced.

// H200: SPV_KHR_bfloat16, SPV_KHR_cooperative_matrix
// H200: spirv.KHR.CooperativeMatrixMulAdd
// LAVAPIPE: #spirv.vce<v1.6, [{{.*}}], []>
// LAVAPIPE-NOT: coopmatrix
// LAVAPIPE-NOT: bf16
// LAVAPIPE: spirv.EntryPoint

spirv.module Logical Vulkan {
  spirv.func @main() "None" {
    %x = spirv.ConstantNull : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>
    %y = spirv.Constant dense<1.0> : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixB>
    %c = spirv.ConstantNull : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %r = spirv.KHR.CooperativeMatrixMulAdd %x, %y, %c : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// -----

// Entry points with different workgroups get separate modules, each with matrices for its own invocations.
// H200: spirv.module @kernels
// LAVAPIPE:     spirv.module @narrow
// LAVAPIPE-NOT: coopmatrix
// LAVAPIPE:     !spirv.array<8 x f32>
// LAVAPIPE:     spirv.ExecutionMode @narrow "LocalSize", 32, 1, 1
// LAVAPIPE:     spirv.module @wide
// LAVAPIPE-NOT: coopmatrix
// LAVAPIPE:     !spirv.array<8 x f32>
// LAVAPIPE:     spirv.ExecutionMode @wide "LocalSize", 64, 2, 1
// LAVAPIPE:     spirv.module @without

spirv.module @kernels Logical Vulkan {
  spirv.func @narrow() "None" {
    %c = spirv.ConstantNull : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %r = spirv.FAdd %c, %c : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @wide() "None" {
    %c = spirv.ConstantNull : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %x = spirv.ConstantNull : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>
    %y = spirv.ConstantNull : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixB>
    %r = spirv.KHR.CooperativeMatrixMulAdd %x, %y, %c : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.func @without() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @narrow
  spirv.ExecutionMode @narrow "LocalSize", 32, 1, 1
  spirv.EntryPoint "GLCompute" @wide
  spirv.ExecutionMode @wide "LocalSize", 64, 2, 1
  spirv.EntryPoint "GLCompute" @without
  spirv.ExecutionMode @without "LocalSize", 3, 1, 1
}
