// RUN: xdsl-opt %s -p 'form-dispatches' | filecheck %s
// A softmax is one dispatch, because its reductions share the columns
// of a row. Reductions over other loops are separate kernels.

// CHECK: func.func @softmax(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
// CHECK-NEXT: [[R:%.*]] = schedule.dispatch(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32> {
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: arith.divf
// CHECK: schedule.yield
// CHECK-NEXT: }
// CHECK-NEXT: func.return [[R]]
func.func @softmax(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %low = arith.constant -3.0e+38 : f32
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<3x1xf32>
  %e2 = tensor.empty() : tensor<3x5xf32>
  %fm = linalg.generic {indexing_maps = [affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%low : f32) outs(%e1 : tensor<3x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3x1xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x5xf32>) outs(%fm : tensor<3x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.maximumf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<3x1xf32>
  %e = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<3x5xf32>, tensor<3x1xf32>) outs(%e2 : tensor<3x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    %v = math.exp %s : f32
    linalg.yield %v : f32
  } -> tensor<3x5xf32>
  %fs = linalg.fill ins(%zero : f32) outs(%e1 : tensor<3x1xf32>) -> tensor<3x1xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<3x5xf32>) outs(%fs : tensor<3x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<3x1xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%e, %s : tensor<3x5xf32>, tensor<3x1xf32>) outs(%e2 : tensor<3x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.divf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<3x5xf32>
  func.return %d : tensor<3x5xf32>
}

// CHECK: func.func @other_columns(%x: tensor<3x5xf32>) -> tensor<3xf32> {
// CHECK-NEXT: [[A:%.*]] = schedule.dispatch(%x) : (tensor<3x5xf32>) -> tensor<5xf32> {
// CHECK: schedule.dispatch(%x, [[A]]) : (tensor<3x5xf32>, tensor<5xf32>) -> tensor<3xf32> {
func.func @other_columns(%x: tensor<3x5xf32>) -> tensor<3xf32> {
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<5xf32>
  %e2 = tensor.empty() : tensor<3x5xf32>
  %e3 = tensor.empty() : tensor<3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<5xf32>) -> tensor<5xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(j, i) -> (i, j)>, affine_map<(j, i) -> (j)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x5xf32>) outs(%f : tensor<5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<5xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<3x5xf32>, tensor<5xf32>) outs(%e2 : tensor<3x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.subf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<3x5xf32>
  %g = linalg.fill ins(%zero : f32) outs(%e3 : tensor<3xf32>) -> tensor<3xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<3x5xf32>) outs(%g : tensor<3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<3xf32>
  func.return %t : tensor<3xf32>
}

// The kernel of a norm also stores the norm's sum for other readers, because an invocation has its elements.

// CHECK: func.func @sum_and_norm
// CHECK-NEXT: [[R:%.*]], [[N:%.*]] = schedule.dispatch(%a, %b) : (tensor<32x64xf32>, tensor<32x64xf32>) -> (tensor<32x64xf32>, tensor<32x64xf32>) {
// CHECK: schedule.yield
// CHECK-NEXT: }
// CHECK-NEXT: func.return [[R]], [[N]]
func.func @sum_and_norm(%a: tensor<32x64xf32>, %b: tensor<32x64xf32>) -> (tensor<32x64xf32>, tensor<32x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<32xf32>
  %e2 = tensor.empty() : tensor<32x64xf32>
  %x = linalg.add ins(%a, %b : tensor<32x64xf32>, tensor<32x64xf32>) outs(%e2 : tensor<32x64xf32>) -> tensor<32x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<32xf32>) -> tensor<32xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<32x64xf32>) outs(%f : tensor<32xf32>) {
  ^bb0(%u: f32, %o: f32):
    %v = arith.maximumf %u, %o : f32
    linalg.yield %v : f32
  } -> tensor<32xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %t : tensor<32x64xf32>, tensor<32xf32>) outs(%e2 : tensor<32x64xf32>) {
  ^bb0(%u: f32, %m: f32, %o: f32):
    %v = arith.subf %u, %m : f32
    linalg.yield %v : f32
  } -> tensor<32x64xf32>
  func.return %x, %n : tensor<32x64xf32>, tensor<32x64xf32>
}

// The rows of a group norm extend along several dimensions of the transposed result. A single dimension
// does not determine an element's row, so one kernel would sum the row again for each element.
// CHECK-LABEL: func.func @turned_groups(
// CHECK:         %sum = schedule.dispatch(%x)
// CHECK:           arith.addf
// CHECK:         schedule.dispatch(%x, %sum)
// CHECK-NOT:       arith.addf
func.func @turned_groups(%x: tensor<2x4x32xf32>) -> tensor<2x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(n, g, k) -> (n, g, k)>, affine_map<(n, g, k) -> (n, g)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x4x32xf32>) outs(%zeros : tensor<2x4xf32>) {
  ^bb0(%a: f32, %t: f32):
    %s = arith.addf %t, %a : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  %en = tensor.empty() : tensor<2x4x32xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, g, k) -> (n, g, k)>, affine_map<(n, g, k) -> (n, g)>, affine_map<(n, g, k) -> (n, g, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %sum : tensor<2x4x32xf32>, tensor<2x4xf32>) outs(%en : tensor<2x4x32xf32>) {
  ^bb0(%a: f32, %s: f32, %o: f32):
    %r = arith.subf %a, %s : f32
    linalg.yield %r : f32
  } -> tensor<2x4x32xf32>
  %flat = tensor.collapse_shape %y [[0], [1, 2]] : tensor<2x4x32xf32> into tensor<2x128xf32>
  %image = tensor.expand_shape %flat [[0], [1, 2]] output_shape [2, 16, 8] : tensor<2x128xf32> into tensor<2x16x8xf32>
  %et = tensor.empty() : tensor<2x8x16xf32>
  %turned = linalg.transpose ins(%image : tensor<2x16x8xf32>) outs(%et : tensor<2x8x16xf32>) permutation = [0, 2, 1]
  func.return %turned : tensor<2x8x16xf32>
}
