// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches' --split-input-file | filecheck %s

// Reshapes move behind the chain of one dispatch, which reads the reshaped residual. Undone reshapes are removed.
// CHECK:      func.func @main
// CHECK-NEXT: %[[residual:.*]] = tensor.collapse_shape %res {{.*}} : tensor<3x4x10xf32> into tensor<12x10xf32>
// CHECK-NEXT: %[[u:.*]] = schedule.dispatch(%a, %b, %row, %[[residual]])
// CHECK:        linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK:        arith.maximumf
// CHECK-NOT:  schedule.dispatch
// CHECK:      func.return %[[u]]
func.func @main(%a: tensor<12x20xf16>, %b: tensor<20x10xf16>, %row: tensor<10xf32>, %res: tensor<3x4x10xf32>) -> tensor<12x10xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<12x10xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<12x10xf32>) -> tensor<12x10xf32>
  %r = linalg.matmul ins(%a, %b : tensor<12x20xf16>, tensor<20x10xf16>) outs(%f : tensor<12x10xf32>) -> tensor<12x10xf32>
  %x = tensor.expand_shape %r [[0, 1], [2]] output_shape [3, 4, 10] : tensor<12x10xf32> into tensor<3x4x10xf32>
  %e3 = tensor.empty() : tensor<3x4x10xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %row, %res : tensor<3x4x10xf32>, tensor<10xf32>, tensor<3x4x10xf32>) outs(%e3 : tensor<3x4x10xf32>) {
  ^bb0(%p: f32, %q: f32, %w: f32, %o: f32):
    %y = arith.addf %p, %q : f32
    %y2 = arith.addf %y, %w : f32
    linalg.yield %y2 : f32
  } -> tensor<3x4x10xf32>
  %t = tensor.collapse_shape %s [[0, 1], [2]] : tensor<3x4x10xf32> into tensor<12x10xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<12x10xf32>) outs(%e : tensor<12x10xf32>) {
  ^bb0(%p: f32, %o: f32):
    %q0 = arith.constant 0.0 : f32
    %y = arith.maximumf %p, %q0 : f32
    linalg.yield %y : f32
  } -> tensor<12x10xf32>
  func.return %u : tensor<12x10xf32>
}

// -----

// A reshape splits the columns of a matrix: a row operand is reshaped, too, and a scalar operand is unchanged.
// CHECK:      func.func @apart
// CHECK-NEXT: %[[row:.*]] = tensor.expand_shape %row
// CHECK-NEXT: %[[r:.*]] = schedule.dispatch(%a, %b, %[[row]]) {{.*}} -> tensor<2x6x10xf32>
// CHECK-NOT:  schedule.dispatch
// CHECK:      tensor.collapse_shape %[[r]]
func.func @apart(%a: tensor<2x6x20xf16>, %b: tensor<2x20x10xf16>, %row: tensor<12xf32>) -> tensor<12x10xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x10xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x6x10xf32>) -> tensor<2x6x10xf32>
  %r = linalg.batch_matmul ins(%a, %b : tensor<2x6x20xf16>, tensor<2x20x10xf16>) outs(%f : tensor<2x6x10xf32>) -> tensor<2x6x10xf32>
  %x = tensor.collapse_shape %r [[0, 1], [2]] : tensor<2x6x10xf32> into tensor<12x10xf32>
  %e2 = tensor.empty() : tensor<12x10xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %row : tensor<12x10xf32>, tensor<12xf32>) outs(%e2 : tensor<12x10xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %y = arith.mulf %p, %q : f32
    linalg.yield %y : f32
  } -> tensor<12x10xf32>
  func.return %s : tensor<12x10xf32>
}

// -----

// Half of a group cannot be read together with a permutation of the other half, so the reshape stays.
// CHECK:      func.func @stays
// CHECK:      schedule.dispatch
// CHECK:      tensor.expand_shape
// CHECK:      schedule.dispatch
func.func @stays(%a: tensor<12x20xf16>, %b: tensor<20x10xf16>, %half: tensor<4xf32>) -> tensor<3x4x10xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<12x10xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<12x10xf32>) -> tensor<12x10xf32>
  %r = linalg.matmul ins(%a, %b : tensor<12x20xf16>, tensor<20x10xf16>) outs(%f : tensor<12x10xf32>) -> tensor<12x10xf32>
  %x = tensor.expand_shape %r [[0, 1], [2]] output_shape [3, 4, 10] : tensor<12x10xf32> into tensor<3x4x10xf32>
  %e3 = tensor.empty() : tensor<3x4x10xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %half : tensor<3x4x10xf32>, tensor<4xf32>) outs(%e3 : tensor<3x4x10xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %y = arith.mulf %p, %q : f32
    linalg.yield %y : f32
  } -> tensor<3x4x10xf32>
  func.return %s : tensor<3x4x10xf32>
}
