// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},fold-parts' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},fold-parts,outline-dispatches,contraction-to-cooperative-matrix' | filecheck %s --check-prefix=KERNEL

// There is one dispatch: a subgroup computes 16 columns of each half alternately, and each element reads both.
// CHECK:      [[W:%.*]] = tensor.expand_shape %w {{.*}} output_shape [2, 2, 16, 64]
// CHECK:      schedule.dispatch(%x, [[W]])
// CHECK:      affine_map<(d0, d1, d2, d3, d4) -> (d0, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d2, d1, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
// CHECK-SAME: schedule = #schedule.contraction
// CHECK-NOT:  tensor.extract_slice
// CHECK:      affine_map<(d0, d1, d2) -> (d0, d1, 0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, 1, d2)>
// CHECK:      arith.mulf
// CHECK:      schedule.yield
// CHECK-NOT:  schedule.dispatch
// CHECK:      tensor.collapse_shape

// Two fragments of the accumulators become one fragment of the result, which alone is stored.
// KERNEL:      spirv.KHR.CooperativeMatrixMulAdd
// KERNEL-NOT:  spirv.KHR.CooperativeMatrixStore
// KERNEL:      [[H:%[0-9]+]] = spirv.FMul {{.*}} !spirv.coopmatrix<16x16xf32
// KERNEL:      spirv.KHR.CooperativeMatrixStore {{.*}}, [[H]], {{.*}} !spirv.ptr<f32, StorageBuffer>
// KERNEL:      spirv.FMul
// KERNEL:      spirv.KHR.CooperativeMatrixStore
// KERNEL-NOT:  spirv.KHR.CooperativeMatrixStore
func.func @main(%x: tensor<32x64xf16>, %w: tensor<64x64xf16>) -> tensor<32x32xf32> {
  %zero = arith.constant 0.0 : f32
  %ep = tensor.empty() : tensor<32x64xf32>
  %zp = linalg.fill ins(%zero : f32) outs(%ep : tensor<32x64xf32>) -> tensor<32x64xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<32x64xf16>, tensor<64x64xf16>) outs(%zp : tensor<32x64xf32>) attrs = {schedule = #schedule.contraction<workgroup_tile = [32, 64, 32], subgroups = [1, 2], instruction = coopmat 16x16x16, a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 8>>} {
  ^bb0(%a: f16, %b: f16, %s: f32):
    %u = arith.extf %a : f16 to f32
    %v = arith.extf %b : f16 to f32
    %m = arith.mulf %u, %v : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<32x64xf32>
  %g = tensor.extract_slice %p[0, 0] [32, 32] [1, 1] : tensor<32x64xf32> to tensor<32x32xf32>
  %h = tensor.extract_slice %p[0, 32] [32, 32] [1, 1] : tensor<32x64xf32> to tensor<32x32xf32>
  %eh = tensor.empty() : tensor<32x32xf32>
  %r = linalg.mul ins(%g, %h : tensor<32x32xf32>, tensor<32x32xf32>) outs(%eh : tensor<32x32xf32>) -> tensor<32x32xf32>
  func.return %r : tensor<32x32xf32>
}
