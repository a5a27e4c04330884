// RUN: xdsl-opt %s -p linalg-to-contraction | filecheck %s
// All contractions get one form: loops M, N, K; A before B; c + ext(a) * ext(b).

// CHECK-LABEL: @named
func.func @named(%a: tensor<4x8xf16>, %b: tensor<8x6xf16>, %c: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x8xf16>, tensor<8x6xf16>) outs(%c : tensor<4x6xf32>) {
  // CHECK-NEXT: ^bb0([[A:%.*]]: f16, [[B:%.*]]: f16, [[C:%.*]]: f32):
  // CHECK-NEXT:   [[AX:%.*]] = arith.extf [[A]] : f16 to f32
  // CHECK-NEXT:   [[BX:%.*]] = arith.extf [[B]] : f16 to f32
  // CHECK-NEXT:   [[P:%.*]] = arith.mulf [[AX]], [[BX]] : f32
  // CHECK-NEXT:   [[S:%.*]] = arith.addf [[C]], [[P]] : f32
  // CHECK-NEXT:   linalg.yield [[S]] : f32
  // CHECK-NEXT: } -> tensor<4x6xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf16>, tensor<8x6xf16>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// CHECK-LABEL: @transposed
func.func @transposed(%a: tensor<8x4xf16>, %b: tensor<6x8xf16>, %c: tensor<4x6xf16>) -> tensor<4x6xf16> {
  // CHECK-NEXT: indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>]
  // CHECK-SAME: ins(%a, %b : tensor<8x4xf16>, tensor<6x8xf16>)
  %0 = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>] ins(%a, %b : tensor<8x4xf16>, tensor<6x8xf16>) outs(%c : tensor<4x6xf16>) -> tensor<4x6xf16>
  return %0 : tensor<4x6xf16>
}

// Inputs, loops, factors and terms may be in another order. The schedule is permuted, too.
// CHECK-LABEL: @generic
func.func @generic(%a: tensor<4x8xf16>, %b: tensor<8x6xf16>, %c: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>]
  // CHECK-SAME: ins(%a, %b : tensor<4x8xf16>, tensor<8x6xf16>) outs(%c : tensor<4x6xf32>) attrs =  {note = "moves"}
  // CHECK:      arith.addf %{{.*}}, %{{.*}} : f32
  %0 = linalg.generic {indexing_maps = [affine_map<(k, n, m) -> (k, n)>, affine_map<(k, n, m) -> (m, k)>, affine_map<(k, n, m) -> (m, n)>], iterator_types = ["reduction", "parallel", "parallel"]} ins(%b, %a : tensor<8x6xf16>, tensor<4x8xf16>) outs(%c : tensor<4x6xf32>) attrs = {note = "moves"} {
  ^bb0(%x: f16, %y: f16, %acc: f32):
    %yx = arith.extf %y : f16 to f32
    %xx = arith.extf %x : f16 to f32
    %p = arith.mulf %yx, %xx : f32
    %s = arith.addf %p, %acc : f32
    linalg.yield %s : f32
  } -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// If the result is stored transposed, its rows are M.
// CHECK-LABEL: @transposed_result
func.func @transposed_result(%a: tensor<4x8xf16>, %b: tensor<8x6xf16>, %c: tensor<6x4xf16>) -> tensor<6x4xf16> {
  // CHECK-NEXT: indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>]
  // CHECK-SAME: ins(%b, %a : tensor<8x6xf16>, tensor<4x8xf16>)
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (n, m)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x8xf16>, tensor<8x6xf16>) outs(%c : tensor<6x4xf16>) {
  ^bb0(%x: f16, %y: f16, %acc: f16):
    %p = arith.mulf %x, %y : f16
    %s = arith.addf %acc, %p : f16
    linalg.yield %s : f16
  } -> tensor<6x4xf16>
  return %0 : tensor<6x4xf16>
}

// A square of one input, a maximum and an operation without a reduction are not contractions, and are unchanged.
// CHECK-LABEL: @others
func.func @others(%a: tensor<4x4xf16>, %b: tensor<4x4xf16>, %c: tensor<4x4xf16>) -> (tensor<4x4xf16>, tensor<4x4xf16>, tensor<4x4xf16>) {
  // CHECK: arith.mulf [[X:%.*]], [[X]] : f16
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x4xf16>, tensor<4x4xf16>) outs(%c : tensor<4x4xf16>) {
  ^bb0(%x: f16, %y: f16, %acc: f16):
    %p = arith.mulf %x, %x : f16
    %s = arith.addf %acc, %p : f16
    linalg.yield %s : f16
  } -> tensor<4x4xf16>
  // CHECK: arith.maximumf
  %1 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x4xf16>, tensor<4x4xf16>) outs(%c : tensor<4x4xf16>) {
  ^bb0(%x: f16, %y: f16, %acc: f16):
    %p = arith.mulf %x, %y : f16
    %s = arith.maximumf %acc, %p : f16
    linalg.yield %s : f16
  } -> tensor<4x4xf16>
  // CHECK: linalg.mul ins(%a, %b
  %2 = linalg.mul ins(%a, %b : tensor<4x4xf16>, tensor<4x4xf16>) outs(%c : tensor<4x4xf16>) -> tensor<4x4xf16>
  return %0, %1, %2 : tensor<4x4xf16>, tensor<4x4xf16>, tensor<4x4xf16>
}
