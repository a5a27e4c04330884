// Sums of products of more than two inputs, for test_factors.py.

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#n = affine_map<(m, n, k) -> (n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// A scale of each column.
func.func @scaled(%a: tensor<4x6xf32>, %b: tensor<5x6xf32>, %s: tensor<5xf32>, %c: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %r = linalg.generic {indexing_maps = [#mk, #nk, #n, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %s : tensor<4x6xf32>, tensor<5x6xf32>, tensor<5xf32>) outs(%c : tensor<4x5xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32, %t: f32):
    %g = arith.mulf %y, %z : f32
    %p = arith.mulf %x, %g : f32
    %r = arith.addf %t, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}

// Bytes become the other factor's type: every byte is a number of binary16.
func.func @converted_bytes(%a: tensor<4x6xf16>, %b: tensor<5x6xi8>, %c: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %r = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x6xf16>, tensor<5x6xi8>) outs(%c : tensor<4x5xf32>) {
  ^bb0(%x: f16, %y: i8, %t: f32):
    %f = arith.extf %x : f16 to f32
    %g = arith.sitofp %y : i8 to f32
    %p = arith.mulf %f, %g : f32
    %r = arith.addf %t, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}

func.func @shared_scale(%a: tensor<4x6xf32>, %b: tensor<5x6xf32>, %s: tensor<5xf32>, %c: tensor<4x5xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #n, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %s : tensor<4x6xf32>, tensor<5x6xf32>, tensor<5xf32>) outs(%c : tensor<4x5xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32, %t: f32):
    %f = arith.mulf %x, %z : f32
    %g = arith.mulf %y, %z : f32
    %p = arith.mulf %f, %g : f32
    %r = arith.addf %t, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x5xf32>
  return
}

func.func @unused(%a: tensor<4x6xf32>, %b: tensor<5x6xf32>, %s: tensor<5xf32>, %c: tensor<4x5xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #n, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %s : tensor<4x6xf32>, tensor<5x6xf32>, tensor<5xf32>) outs(%c : tensor<4x5xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32, %t: f32):
    %p = arith.mulf %x, %y : f32
    %r = arith.addf %t, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x5xf32>
  return
}
