// RUN: xdsl-opt %s -p linalg-quantized-to-contraction --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-quantized-to-contraction{same_signs=true}' --split-input-file | filecheck %s --check-prefix=SAME
// sum of (a - za)(b - zb) becomes sum of ab, minus the sums of one operand times a zero point, plus K za zb.

// With constant zero points and weights, the correction is the addition of a row.
func.func @known(%a: tensor<4x2xi8>, %c: tensor<4x3xi32>) -> tensor<4x3xi32> {
  %w = arith.constant dense<[[1, -2, 3], [4, 5, 7]]> : tensor<2x3xi8>
  %za = arith.constant 10 : i32
  %zb = arith.constant 1 : i32
  %r = linalg.quantized_matmul ins(%a, %w, %za, %zb : tensor<4x2xi8>, tensor<2x3xi8>, i32, i32) outs(%c : tensor<4x3xi32>) -> tensor<4x3xi32>
  return %r : tensor<4x3xi32>
}
// CHECK: @known
// CHECK: [[P:%.*]] = linalg.generic {{.*}} ins(%a, %w : tensor<4x2xi8>, tensor<2x3xi8>) outs(%c : tensor<4x3xi32>)
// CHECK-NEXT: ^bb0([[X:%.*]]: i8, [[Y:%.*]]: i8, [[ACC:%.*]]: i32):
// CHECK-NEXT: arith.extsi [[X]] : i8 to i32
// CHECK-NEXT: arith.extsi [[Y]] : i8 to i32
// CHECK-NEXT: arith.muli
// CHECK-NEXT: arith.addi %{{.*}}, [[ACC]]
// The row: 2 * 10 * 1 - 10 * [5, 3, 10].
// CHECK: [[ROW:%.*]] = arith.constant dense<[-30, -10, -80]> : tensor<3xi32>
// CHECK: [[SUMS:%.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%a : tensor<4x2xi8>)
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins([[P]], [[ROW]], [[SUMS]] : tensor<4x3xi32>, tensor<3xi32>, tensor<4xi32>)
// CHECK-NEXT: ^bb0([[V:%.*]]: i32, [[R:%.*]]: i32, [[S:%.*]]: i32, %{{.*}}: i32):
// CHECK-NEXT: [[T:%.*]] = arith.addi [[V]], [[R]] : i32
// CHECK-NEXT: [[ONE:%.*]] = arith.constant 1 : i32
// CHECK-NEXT: [[U:%.*]] = arith.muli [[ONE]], [[S]] : i32
// CHECK-NEXT: [[D:%.*]] = arith.subi [[T]], [[U]] : i32
// CHECK-NEXT: linalg.yield [[D]] : i32

// -----

// An empty tensor gives the size of the window, which no operand has. A zero point of 0 needs no arithmetic.
func.func @convolution(%a: tensor<1x5x3xi8>, %w: tensor<2x3x4xi8>, %zb: i32, %c: tensor<1x4x4xi32>) -> tensor<1x4x4xi32> {
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, f, k, c) -> (n, w + k, c)>, affine_map<(n, w, f, k, c) -> (k, c, f)>, affine_map<(n, w, f, k, c) -> ()>, affine_map<(n, w, f, k, c) -> (n, w, f)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%a, %w, %zb : tensor<1x5x3xi8>, tensor<2x3x4xi8>, i32) outs(%c : tensor<1x4x4xi32>) {
  ^bb0(%x: i8, %y: i8, %z: i32, %acc: i32):
    %xx = arith.extui %x : i8 to i32
    %yy = arith.extsi %y : i8 to i32
    %d = arith.subi %yy, %z : i32
    %p = arith.muli %xx, %d : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<1x4x4xi32>
  return %r : tensor<1x4x4xi32>
}
// CHECK: @convolution
// CHECK: ins(%a, %w : tensor<1x5x3xi8>, tensor<2x3x4xi8>)
// CHECK: arith.extui
// CHECK-NEXT: arith.extsi
// CHECK: [[W:%.*]] = tensor.empty() : tensor<2xi32>
// CHECK: [[SUMS:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, (d1 + d2), d3)>, affine_map<(d0, d1, d2, d3) -> (d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%a, [[W]] : tensor<1x5x3xi8>, tensor<2xi32>)
// CHECK-NOT: linalg.generic {{.*}} ins(%w
// CHECK: arith.muli
// CHECK-NEXT: arith.subi
// CHECK-NEXT: linalg.yield

// As signed bytes, like the weights, the image has the zero point -128: the weights' sums are multiplied by it.
// SAME: @convolution
// SAME: arith.constant -128 : i8
// SAME-NEXT: arith.xori
// SAME: arith.extsi
// SAME-NEXT: arith.extsi
// SAME: linalg.generic {{.*}} ins(%w :

// -----

// QDQ: the scales of the weights' columns come after the sum; the padding is the zero point.
func.func @dequantized(%q: tensor<4x2xi8>, %w: tensor<4x3xi8>, %s: tensor<3xf32>, %c: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %none = arith.constant 0.0 : f32
  %scale = arith.constant 0.5 : f32
  %zero = arith.constant 117 : i32
  %e = tensor.empty() : tensor<4x2xf32>
  %x = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<4x2xi8>) outs(%e : tensor<4x2xf32>) {
  ^bb0(%in: i8, %out: f32):
    %0 = arith.extui %in : i8 to i32
    %1 = arith.subi %0, %zero : i32
    %2 = arith.sitofp %1 : i32 to f32
    %3 = arith.mulf %2, %scale : f32
    linalg.yield %3 : f32
  } -> tensor<4x2xf32>
  %p = tensor.pad %x low[1, 0] high[0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %none : f32
  } : tensor<4x2xf32> to tensor<5x4xf32>
  %e1 = tensor.empty() : tensor<4x3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%w, %s : tensor<4x3xi8>, tensor<3xf32>) outs(%e1 : tensor<4x3xf32>) {
  ^bb0(%in: i8, %by: f32, %out: f32):
    %0 = arith.sitofp %in : i8 to f32
    %1 = arith.mulf %0, %by : f32
    linalg.yield %1 : f32
  } -> tensor<4x3xf32>
  %r = linalg.matmul ins(%p, %y : tensor<5x4xf32>, tensor<4x3xf32>) outs(%c : tensor<5x3xf32>) -> tensor<5x3xf32>
  return %r : tensor<5x3xf32>
}
// CHECK: @dequantized
// CHECK: [[Z:%.*]] = arith.constant 117 : i8
// CHECK: [[P:%.*]] = tensor.pad %q low[1, 0] high[0, 2]
// CHECK: tensor.yield [[Z]] : i8
// CHECK: tensor<4x2xi8> to tensor<5x4xi8>
// CHECK: ins([[P]], %w : tensor<5x4xi8>, tensor<4x3xi8>)
// CHECK: ins(%{{.*}}, %s, %c : tensor<5x3xi32>, tensor<3xf32>, tensor<5x3xf32>)
// CHECK-NEXT: ^bb0([[SUM:%.*]]: i32, [[BY:%.*]]: f32, [[INIT:%.*]]: f32,
// CHECK-NEXT: [[SCALE:%.*]] = arith.mulf %scale, [[BY]] : f32
// CHECK-NEXT: [[F:%.*]] = arith.sitofp [[SUM]] : i32 to f32
// CHECK-NEXT: [[M:%.*]] = arith.mulf [[F]], [[SCALE]] : f32
// CHECK-NEXT: arith.addf [[INIT]], [[M]] : f32
