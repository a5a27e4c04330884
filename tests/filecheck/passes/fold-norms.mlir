// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},fold-norms' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe},fold-norms' | filecheck %s --check-prefix=PROCESSOR
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},fold-norms,outline-dispatches,contraction-to-rows' | filecheck %s --check-prefix=KERNEL

// There is one dispatch, which computes the sum of squares and the product of the original row, and divides the result.
// CHECK:      schedule.dispatch(%x, %w)
// CHECK:        math.sqrt
// CHECK:        schedule = #schedule.rows
// CHECK:        arith.divf
// CHECK:        schedule.yield
// CHECK-NOT:  schedule.dispatch

// PROCESSOR-COUNT-2: schedule.dispatch

// The sums of the subgroups are stored to Workgroup memory. The invocations that store results read them.
// KERNEL:     %row_sums = memref.alloc
// KERNEL:     memref.store {{.*}} %row_sums
// KERNEL:     gpu.barrier
// KERNEL:     memref.load %row_sums
// KERNEL:     math.sqrt
// KERNEL:     arith.divf
func.func @main(%x: tensor<1x64xf32>, %w: tensor<48x64xf32>) -> tensor<1x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1x64xf32>) outs(%zeros : tensor<1xf32>) {
  ^bb0(%a: f32, %t: f32):
    %p = arith.mulf %a, %a : f32
    %s = arith.addf %t, %p : f32
    linalg.yield %s : f32
  } -> tensor<1xf32>
  %root = linalg.sqrt ins(%sum : tensor<1xf32>) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %en = tensor.empty() : tensor<1x64xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>, affine_map<(m, k) -> (m, k)>], iterator_types = ["parallel", "parallel"]} ins(%x, %root : tensor<1x64xf32>, tensor<1xf32>) outs(%en : tensor<1x64xf32>) {
  ^bb0(%a: f32, %s: f32, %o: f32):
    %r = arith.divf %a, %s : f32
    linalg.yield %r : f32
  } -> tensor<1x64xf32>
  %er = tensor.empty() : tensor<1x48xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%er : tensor<1x48xf32>) -> tensor<1x48xf32>
  %r = linalg.matmul {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]} ins(%y, %w : tensor<1x64xf32>, tensor<48x64xf32>) outs(%zr : tensor<1x48xf32>) -> tensor<1x48xf32>
  func.return %r : tensor<1x48xf32>
}
