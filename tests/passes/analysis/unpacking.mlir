// Weights in blocks, for test_unpacking.py and test_unit_code.py: columns n, blocks b, halves h, elements j.

#q = affine_map<(n, b, h, j) -> (n, b, j)>
#w = affine_map<(n, b, h, j) -> (n, b, h, j)>
#d = affine_map<(n, b, h, j) -> (n, b)>

// Nibbles of bytes, the low ones first, times a scale of binary16.
func.func @scaled_nibbles(%q: tensor<3x4x16xi8>, %d: tensor<3x4xf16>, %e: tensor<3x4x2x16xf16>) {
  linalg.generic {indexing_maps = [#q, #d, #w], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q, %d : tensor<3x4x16xi8>, tensor<3x4xf16>) outs(%e : tensor<3x4x2x16xf16>) {
  ^bb0(%a: i8, %s: f16, %o: f16):
    %h = linalg.index 2 : index
    %h8 = arith.index_cast %h : index to i8
    %four = arith.constant 4 : i8
    %places = arith.muli %h8, %four : i8
    %moved = arith.shrui %a, %places : i8
    %mask = arith.constant 15 : i8
    %nibble = arith.andi %moved, %mask : i8
    %f = arith.uitofp %nibble : i8 to f32
    %t = arith.extf %s : f16 to f32
    %p = arith.mulf %f, %t : f32
    %r = arith.truncf %p : f32 to f16
    linalg.yield %r : f16
  } -> tensor<3x4x2x16xf16>
  return
}

// Signed bytes times a scale, as binary32.
func.func @scaled_bytes(%q: tensor<3x4x2x16xi8>, %d: tensor<3x4xf32>, %e: tensor<3x4x2x16xf32>) {
  linalg.generic {indexing_maps = [#w, #d, #w], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q, %d : tensor<3x4x2x16xi8>, tensor<3x4xf32>) outs(%e : tensor<3x4x2x16xf32>) {
  ^bb0(%a: i8, %s: f32, %o: f32):
    %f = arith.sitofp %a : i8 to f32
    %p = arith.mulf %f, %s : f32
    linalg.yield %p : f32
  } -> tensor<3x4x2x16xf32>
  return
}

// Nibbles less 8, without a scale: small integers, which binary16 has.
func.func @centred_nibbles(%q: tensor<3x4x16xi8>, %e: tensor<3x4x2x16xf16>) {
  linalg.generic {indexing_maps = [#q, #w], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q : tensor<3x4x16xi8>) outs(%e : tensor<3x4x2x16xf16>) {
  ^bb0(%a: i8, %o: f16):
    %h = linalg.index 2 : index
    %h8 = arith.index_cast %h : index to i8
    %four = arith.constant 4 : i8
    %places = arith.muli %h8, %four : i8
    %moved = arith.shrui %a, %places : i8
    %mask = arith.constant 15 : i8
    %nibble = arith.andi %moved, %mask : i8
    %f = arith.uitofp %nibble : i8 to f32
    %eight = arith.constant 8.0 : f32
    %p = arith.subf %f, %eight : f32
    %r = arith.truncf %p : f32 to f16
    linalg.yield %r : f16
  } -> tensor<3x4x2x16xf16>
  return
}

// A shift by the place in the innermost loop cannot be done on four neighbours together.
func.func @uneven(%q: tensor<3x4x2x16xi8>, %e: tensor<3x4x2x16xf32>) {
  linalg.generic {indexing_maps = [#w, #w], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q : tensor<3x4x2x16xi8>) outs(%e : tensor<3x4x2x16xf32>) {
  ^bb0(%a: i8, %o: f32):
    %j = linalg.index 3 : index
    %j8 = arith.index_cast %j : index to i8
    %moved = arith.shrui %a, %j8 : i8
    %f = arith.uitofp %moved : i8 to f32
    linalg.yield %f : f32
  } -> tensor<3x4x2x16xf32>
  return
}

// Nothing is packed: all elements are floats.
func.func @floats(%q: tensor<3x4x2x16xf16>, %e: tensor<3x4x2x16xf32>) {
  linalg.generic {indexing_maps = [#w, #w], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q : tensor<3x4x2x16xf16>) outs(%e : tensor<3x4x2x16xf32>) {
  ^bb0(%a: f16, %o: f32):
    %f = arith.extf %a : f16 to f32
    linalg.yield %f : f32
  } -> tensor<3x4x2x16xf32>
  return
}
