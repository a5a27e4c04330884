// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=lavapipe}' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=nvidia-h200}' | filecheck %s --check-prefix=H200
// The composed pass gives the same module as its passes in sequence.
// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=lavapipe}' > %t.one
// RUN: xdsl-opt %s -p 'linalg-to-contraction,assign-schedule{target=lavapipe},outline-dispatches,contraction-to-cooperative-matrix,kernel-to-spirv,spirv-split-entry-points,spirv-update-vce' | diff %t.one -

// CHECK: "gpu.launch_func"
// CHECK-SAME: kernel = @matmul_24x16x40::@matmul_24x16x40
// CHECK: spirv.module @matmul_24x16x40 Logical Vulkan requires #spirv.vce<v1.6, [
// CHECK-SAME: CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]>
// CHECK: spirv.KHR.CooperativeMatrixMulAdd %{{.*}}, %{{.*}}, %{{.*}} : !spirv.coopmatrix<8x8xf16, Subgroup, MatrixA>, !spirv.coopmatrix<8x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
// H200: spirv.KHR.CooperativeMatrixMulAdd %{{.*}}, %{{.*}}, %{{.*}} : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
func.func @main(%a: tensor<24x40xf16>, %b: tensor<40x16xf16>) -> tensor<24x16xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24x16xf32>
  %c = linalg.fill ins(%z : f32) outs(%e : tensor<24x16xf32>) -> tensor<24x16xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<24x40xf16>, tensor<40x16xf16>) outs(%c : tensor<24x16xf32>) -> tensor<24x16xf32>
  return %0 : tensor<24x16xf32>
}
