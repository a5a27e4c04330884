// Functions for test_loops_nests.py and test_loops_access.py.

#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
#i = affine_map<(i, j) -> (i)>

func.func @joined(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>, %z: tensor<2x7xf32>) -> (tensor<2x7xf32>, tensor<2x7xf32>) {
  %c = tensor.concat dim(1) %x, %y : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
  %e = tensor.empty() : tensor<2x7xf32>
  %w = linalg.exp ins(%z : tensor<2x7xf32>) outs(%e : tensor<2x7xf32>) -> tensor<2x7xf32>
  return %c, %w : tensor<2x7xf32>, tensor<2x7xf32>
}

// %y replaces a part of %x, and %z replaces a part of both.
func.func @laid_over(%x: tensor<8xf32>, %y: tensor<4xf32>, %z: tensor<3xf32>) -> tensor<8xf32> {
  %a = tensor.insert_slice %y into %x[1] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %b = tensor.insert_slice %z into %a[3] [3] [2] : tensor<3xf32> into tensor<8xf32>
  return %b : tensor<8xf32>
}

func.func @apart(%y: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %a = tensor.insert_slice %y into %e[0] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %b = tensor.insert_slice %z into %a[4] [4] [1] : tensor<4xf32> into tensor<8xf32>
  return %b : tensor<8xf32>
}

// A softmax without its division: sums over the columns of exp(x - max of the row), by row.
func.func @row_sums(%x: tensor<4x6xf32>, %m: tensor<4xf32>, %s: tensor<4xf32>) -> tensor<4x6xf32> {
  %most = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x6xf32>) outs(%m : tensor<4xf32>) {
  ^bb0(%a: f32, %t: f32):
    %n = arith.maximumf %a, %t : f32
    linalg.yield %n : f32
  } -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#ij, #i, #i], iterator_types = ["parallel", "reduction"]} ins(%x, %most : tensor<4x6xf32>, tensor<4xf32>) outs(%s : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %d = arith.subf %a, %b : f32
    %n = arith.addf %d, %t : f32
    linalg.yield %n : f32
  } -> tensor<4xf32>
  %e = tensor.empty() : tensor<4x6xf32>
  %r = linalg.generic {indexing_maps = [#i, #ij], iterator_types = ["parallel", "parallel"]} ins(%sum : tensor<4xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%a: f32, %t: f32):
    linalg.yield %a : f32
  } -> tensor<4x6xf32>
  return %r : tensor<4x6xf32>
}

// The sum of each row is reduced again over all rows.
func.func @total(%x: tensor<4x6xf32>, %s: tensor<4xf32>, %t: tensor<f32>) -> tensor<f32> {
  %sum = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x6xf32>) outs(%s : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.addf %a, %o : f32
    linalg.yield %n : f32
  } -> tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]} ins(%sum : tensor<4xf32>) outs(%t : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.addf %a, %o : f32
    linalg.yield %n : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}

// The sums are read through a reshape: rows of 4 sums become 2 x 2.
func.func @reshaped_sums(%x: tensor<4x6xf32>, %s: tensor<4xf32>) -> tensor<2x2x5xf32> {
  %sum = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x6xf32>) outs(%s : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.addf %a, %o : f32
    linalg.yield %n : f32
  } -> tensor<4xf32>
  %two = tensor.expand_shape %sum [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %e = tensor.empty() : tensor<2x2x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%two : tensor<2x2xf32>) outs(%e : tensor<2x2x5xf32>) {
  ^bb0(%a: f32, %t: f32):
    linalg.yield %a : f32
  } -> tensor<2x2x5xf32>
  return %r : tensor<2x2x5xf32>
}

func.func @swapped(%x: memref<4xf32>, %y: memref<4xf32>) {
  %local = memref.alloc() : memref<4xf32>
  "memref.copy"(%x, %local) : (memref<4xf32>, memref<4xf32>) -> ()
  "memref.copy"(%y, %x) : (memref<4xf32>, memref<4xf32>) -> ()
  "memref.copy"(%local, %y) : (memref<4xf32>, memref<4xf32>) -> ()
  return
}

// Access

func.func @turned(%x: tensor<64x32xf32>, %bias: tensor<32xf32>) -> tensor<32x64xf32> {
  %e = tensor.empty() : tensor<32x64xf32>
  %r = linalg.generic {indexing_maps = [#ji, #i, #ij], iterator_types = ["parallel", "parallel"]} ins(%x, %bias : tensor<64x32xf32>, tensor<32xf32>) outs(%e : tensor<32x64xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %n = arith.addf %a, %b : f32
    linalg.yield %n : f32
  } -> tensor<32x64xf32>
  return %r : tensor<32x64xf32>
}

func.func @straight(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %e = tensor.empty() : tensor<64x32xf32>
  %r = linalg.exp ins(%x : tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) -> tensor<64x32xf32>
  return %r : tensor<64x32xf32>
}

func.func @turned_bits(%x: tensor<64x32xi4>) -> tensor<32x64xi4> {
  %e = tensor.empty() : tensor<32x64xi4>
  %r = linalg.transpose ins(%x : tensor<64x32xi4>) outs(%e : tensor<32x64xi4>) permutation = [1, 0]
  return %r : tensor<32x64xi4>
}

func.func @turned_bytes(%x: tensor<64x32xi8>) -> tensor<32x64xi8> {
  %e = tensor.empty() : tensor<32x64xi8>
  %r = linalg.transpose ins(%x : tensor<64x32xi8>) outs(%e : tensor<32x64xi8>) permutation = [1, 0]
  return %r : tensor<32x64xi8>
}

func.func @turned_and_straight(%x: tensor<64x32xf32>, %y: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %e = tensor.empty() : tensor<32x64xf32>
  %r = linalg.generic {indexing_maps = [#ji, #ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<64x32xf32>, tensor<32x64xf32>) outs(%e : tensor<32x64xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %n = arith.addf %a, %b : f32
    linalg.yield %n : f32
  } -> tensor<32x64xf32>
  return %r : tensor<32x64xf32>
}

func.func @turned_images(%x: tensor<3x64x2x8xf32>) -> tensor<3x2x8x64xf32> {
  %e = tensor.empty() : tensor<3x2x8x64xf32>
  %r = linalg.transpose ins(%x : tensor<3x64x2x8xf32>) outs(%e : tensor<3x2x8x64xf32>) permutation = [0, 2, 3, 1]
  return %r : tensor<3x2x8x64xf32>
}

// Dimensions of size 1 disappear; the slice and the padding keep the order of elements.
func.func @through_reshapes(%x: tensor<66x1x32xf32>) -> tensor<32x66xf32> {
  %c = arith.constant 0.0 : f32
  %two = tensor.collapse_shape %x [[0, 1], [2]] : tensor<66x1x32xf32> into tensor<66x32xf32>
  %s = tensor.extract_slice %two[1, 0] [64, 32] [1, 1] : tensor<66x32xf32> to tensor<64x32xf32>
  %p = tensor.pad %s low[1, 0] high[1, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %c : f32
  } : tensor<64x32xf32> to tensor<66x32xf32>
  %e = tensor.empty() : tensor<32x66xf32>
  %r = linalg.transpose ins(%p : tensor<66x32xf32>) outs(%e : tensor<32x66xf32>) permutation = [1, 0]
  return %r : tensor<32x66xf32>
}
