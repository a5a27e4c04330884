// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},fold-readers' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},fold-readers,outline-dispatches,contraction-to-rows' | filecheck %s --check-prefix=KERNEL

// There is one dispatch: the columns are read after the product.
// CHECK:      schedule.dispatch(%x, %w)
// CHECK:      schedule = #schedule.rows
// CHECK:      tensor.expand_shape
// CHECK:      arith.maximumf
// CHECK:      schedule.yield
// CHECK-NOT:  schedule.dispatch

// An invocation adds up two adjacent columns, and stores one element.
// KERNEL:      gpu.barrier
// KERNEL-COUNT-4: memref.load %partial
// KERNEL-NOT:  memref.load %partial
// KERNEL:      arith.maximumf
// KERNEL:      memref.store
// KERNEL-NOT:  memref.store
func.func @main(%x: tensor<1x512xf32>, %w: tensor<8x512xf32>) -> tensor<1x4xf32> {
  %zero = arith.constant 0.0 : f32
  %ep = tensor.empty() : tensor<1x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%ep : tensor<1x8xf32>) -> tensor<1x8xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x512xf32>, tensor<8x512xf32>) outs(%z : tensor<1x8xf32>) attrs = {schedule = #schedule.rows<rows = 1, columns = 2, lanes = 32, steps = 1, subgroups = [2, 1]>} {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %t, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x8xf32>
  %v = tensor.expand_shape %p [[0], [1, 2]] output_shape [1, 4, 2] : tensor<1x8xf32> into tensor<1x4x2xf32>
  %eh = tensor.empty() : tensor<1x4xf32>
  %h = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j, 0)>, affine_map<(i, j) -> (i, j, 1)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%v, %v : tensor<1x4x2xf32>, tensor<1x4x2xf32>) outs(%eh : tensor<1x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.maximumf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x4xf32>
  func.return %h : tensor<1x4xf32>
}
