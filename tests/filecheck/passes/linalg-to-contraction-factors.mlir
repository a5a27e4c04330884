// RUN: xdsl-opt %s -p linalg-to-contraction --split-input-file | filecheck %s
// A factor that is more than an extended input is computed elementwise before the contraction.

// Weights of 8 bits have a scale per column, and are computed in the types of the body.
func.func @scaled(%a: tensor<4x8xf16>, %b: tensor<8x6xi8>, %s: tensor<6xf32>, %c: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %s : tensor<4x8xf16>, tensor<8x6xi8>, tensor<6xf32>) outs(%c : tensor<4x6xf32>) {
  ^bb0(%x: f16, %y: i8, %z: f32, %acc: f32):
    %xx = arith.extf %x : f16 to f32
    %yx = arith.sitofp %y : i8 to f32
    %ys = arith.mulf %yx, %z : f32
    %p = arith.mulf %xx, %ys : f32
    %q = arith.addf %acc, %p : f32
    linalg.yield %q : f32
  } -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
// CHECK: @scaled
// CHECK: [[B:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%b, %s :
// CHECK-NEXT: ^bb0([[Y:%.*]]: i8, [[Z:%.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: arith.sitofp [[Y]] : i8 to f32
// CHECK-NEXT: arith.mulf %{{.*}}, [[Z]] : f32
// CHECK: ins(%a, [[B]] : tensor<4x8xf16>, tensor<8x6xf32>)

// -----

// The unscaled weight is exact in 16 bits, so the product has f16 operands.
func.func @mixed(%a: tensor<4x8xf16>, %b: tensor<8x6xi8>, %c: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf16>, tensor<8x6xi8>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
// CHECK: @mixed
// CHECK: arith.sitofp %{{.*}} : i8 to f16
// CHECK: ins(%a, %{{.*}} : tensor<4x8xf16>, tensor<8x6xf16>) outs(%c : tensor<4x6xf32>)

// -----

// A fused multiply-add is also recognized, and extensions in several steps become one extension.
func.func @steps(%a: tensor<4x8xi8>, %b: tensor<8x6xi8>, %c: tensor<4x6xi32>, %f: tensor<4x8xf32>, %g: tensor<8x6xf32>, %h: tensor<4x6xf32>) -> (tensor<4x6xi32>, tensor<4x6xf32>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x8xi8>, tensor<8x6xi8>) outs(%c : tensor<4x6xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %x1 = arith.extui %x : i8 to i16
    %x2 = arith.extsi %x1 : i16 to i32
    %y1 = arith.extsi %y : i8 to i16
    %y2 = arith.extsi %y1 : i16 to i32
    %p = arith.muli %x2, %y2 : i32
    %q = arith.addi %acc, %p : i32
    linalg.yield %q : i32
  } -> tensor<4x6xi32>
  %1 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%f, %g : tensor<4x8xf32>, tensor<8x6xf32>) outs(%h : tensor<4x6xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %q = math.fma %x, %y, %acc : f32
    linalg.yield %q : f32
  } -> tensor<4x6xf32>
  return %0, %1 : tensor<4x6xi32>, tensor<4x6xf32>
}
// CHECK: @steps
// CHECK: ins(%a, %b : tensor<4x8xi8>, tensor<8x6xi8>)
// CHECK-NEXT: ^bb0([[X:%.*]]: i8, [[Y:%.*]]: i8,
// CHECK-NEXT: arith.extui [[X]] : i8 to i32
// CHECK-NEXT: arith.extsi [[Y]] : i8 to i32
// CHECK: ins(%f, %g : tensor<4x8xf32>, tensor<8x6xf32>)
// CHECK: arith.mulf
// CHECK-NEXT: arith.addf

// -----

// One input in both factors, or a factor that depends on the position, is not separated.
func.func @others(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>, %c: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x8xf32>, tensor<8x6xf32>) outs(%c : tensor<4x6xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %d = arith.subf %x, %y : f32
    %p = arith.mulf %d, %y : f32
    %q = arith.addf %acc, %p : f32
    linalg.yield %q : f32
  } -> tensor<4x6xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x8xf32>, tensor<8x6xf32>) outs(%c : tensor<4x6xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %f = arith.sitofp %j : i32 to f32
    %d = arith.mulf %x, %f : f32
    %p = arith.mulf %d, %y : f32
    %q = arith.addf %acc, %p : f32
    linalg.yield %q : f32
  } -> tensor<4x6xf32>
  return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
}
// CHECK: @others
// CHECK-NOT: tensor.empty
// CHECK: arith.subf
// CHECK: linalg.index 0
