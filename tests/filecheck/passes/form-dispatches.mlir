// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches' --split-input-file | filecheck %s
// A contraction fuses a cast of one operand, its bias (which is no longer the accumulators'
// initial value), following elementwise operations, and a value of the chain that has other users.

// CHECK: func.func @chain(%a: tensor<4x8xf32>, %b: tensor<8x6xf16>, %bias: tensor<6xf32>) -> (tensor<4x6xf16>, tensor<4x6xf32>) {
// CHECK-NEXT: %{{.*}}, %{{.*}} = schedule.dispatch(%a, %b, %bias) : (tensor<4x8xf32>, tensor<8x6xf16>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf16>) {
// CHECK: linalg.fill
// CHECK: arith.truncf
// CHECK: linalg.yield
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: arith.addf
// CHECK: iterator_types = ["parallel", "parallel"]
// CHECK: arith.addf
// CHECK: arith.maximumf
// CHECK-NEXT: arith.truncf
// CHECK: schedule.yield %{{.*}}, %{{.*}} : tensor<4x6xf32>, tensor<4x6xf16>
// CHECK-NEXT: }
// CHECK-NEXT: func.return
func.func @chain(%a: tensor<4x8xf32>, %b: tensor<8x6xf16>, %bias: tensor<6xf32>) -> (tensor<4x6xf16>, tensor<4x6xf32>) {
  %e16 = tensor.empty() : tensor<4x8xf16>
  %cast = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4x8xf32>) outs(%e16 : tensor<4x8xf16>) {
  ^bb0(%x: f32, %o: f16):
    %t = arith.truncf %x : f32 to f16
    linalg.yield %t : f16
  } -> tensor<4x8xf16>
  %e = tensor.empty() : tensor<4x6xf32>
  %row = linalg.broadcast ins(%bias : tensor<6xf32>) outs(%e : tensor<4x6xf32>) dimensions = [0]
  %0 = linalg.matmul ins(%cast, %b : tensor<4x8xf16>, tensor<8x6xf16>) outs(%row : tensor<4x6xf32>) -> tensor<4x6xf32>
  %er = tensor.empty() : tensor<4x6xf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<4x6xf32>) outs(%er : tensor<4x6xf16>) {
  ^bb0(%x: f32, %o: f16):
    %z = arith.constant 0.0 : f32
    %m = arith.maximumf %x, %z : f32
    %t = arith.truncf %m : f32 to f16
    linalg.yield %t : f16
  } -> tensor<4x6xf16>
  func.return %1, %0 : tensor<4x6xf16>, tensor<4x6xf32>
}

// -----

// The sum of two contractions is fused into one of them: into the contraction whose
// result the other one does not need. The dispatch comes after everything that it reads.

// CHECK: func.func @residual(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK-NEXT: [[X:%.*]] = schedule.dispatch(%a, %b) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK: [[Y:%.*]] = schedule.dispatch([[X]], %b) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: iterator_types = ["parallel", "parallel"]
// CHECK: func.return [[Y]]
func.func @residual(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %x = linalg.matmul ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = linalg.matmul ins(%x, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = linalg.add ins(%x, %y : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %s : tensor<4x4xf32>
}

// -----

// Elementwise operations without a contraction form a dispatch
// together with operations that only move their elements.

// CHECK: func.func @loops(%a: tensor<2x6xf32>) -> tensor<3x4xf32> {
// CHECK-NEXT: [[X:%.*]] = schedule.dispatch(%a) : (tensor<2x6xf32>) -> tensor<3x4xf32> {
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: tensor.collapse_shape
// CHECK: tensor.expand_shape
// CHECK: linalg.index
// CHECK-NOT: schedule.dispatch
// CHECK: func.return [[X]]
func.func @loops(%a: tensor<2x6xf32>) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<2x6xf32>
  %0 = linalg.exp ins(%a : tensor<2x6xf32>) outs(%e : tensor<2x6xf32>) -> tensor<2x6xf32>
  %1 = linalg.add ins(%0, %a : tensor<2x6xf32>, tensor<2x6xf32>) outs(%e : tensor<2x6xf32>) -> tensor<2x6xf32>
  %2 = tensor.collapse_shape %1 [[0, 1]] : tensor<2x6xf32> into tensor<12xf32>
  %3 = tensor.expand_shape %2 [[0, 1]] output_shape [3, 4] : tensor<12xf32> into tensor<3x4xf32>
  %e3 = tensor.empty() : tensor<3x4xf32>
  %4 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<3x4xf32>) outs(%e3 : tensor<3x4xf32>) {
  ^bb0(%x: f32, %o: f32):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i32
    %f = arith.sitofp %n : i32 to f32
    %s = arith.addf %x, %f : f32
    linalg.yield %s : f32
  } -> tensor<3x4xf32>
  func.return %4 : tensor<3x4xf32>
}

// -----

// Sums and the added initial value keep their dynamic type, also if the size is constant.

// CHECK: func.func @cast_bias
// CHECK: linalg.fill {{.*}} -> tensor<?x8xf32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?x8xf32>)
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?x8xf32>)
func.func @cast_bias(%a: tensor<4x8xf32>, %b: tensor<8x8xf32>, %c: tensor<4x8xf32>) -> tensor<?x8xf32> {
  %x = tensor.cast %a : tensor<4x8xf32> to tensor<?x8xf32>
  %bias = tensor.cast %c : tensor<4x8xf32> to tensor<?x8xf32>
  %r = linalg.matmul ins(%x, %b : tensor<?x8xf32>, tensor<8x8xf32>) outs(%bias : tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %r : tensor<?x8xf32>
}
