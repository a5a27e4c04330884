// RUN: xdsl-opt %s -p 'spirv-to-vulkan12{target=nvidia-h200 subgroup-size=32}' | filecheck %s --check-prefix=H200
// RUN: xdsl-opt %s -p 'spirv-to-vulkan12{target=lavapipe subgroup-size=32}' | filecheck %s --check-prefix=LAVAPIPE

// One device lists this MulAdd. The other has neither 16x16x16 nor bfloat16: nothing of both is left.

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
