// Contractions for test_contraction.py, test_plan.py and test_fit.py: `expected` is the kernel's name, and the loops of batch, M, N and K.

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#m = affine_map<(m, n, k) -> (m)>

func.func @matrices(%a: tensor<48x64xf16>, %b: tensor<64x32xf16>, %c: tensor<48x32xf32>) {
  linalg.matmul {expected = ["matmul_48x32x64", 0, 1, 1, 1]} ins(%a, %b : tensor<48x64xf16>, tensor<64x32xf16>) outs(%c : tensor<48x32xf32>) -> tensor<48x32xf32>
  return
}

func.func @uneven(%a: tensor<12x64xf16>, %b: tensor<64x20xf16>, %c: tensor<12x20xf32>) {
  linalg.matmul {expected = ["matmul_12x20x64", 0, 1, 1, 1]} ins(%a, %b : tensor<12x64xf16>, tensor<64x20xf16>) outs(%c : tensor<12x20xf32>) -> tensor<12x20xf32>
  return
}

func.func @batches(%a: tensor<5x6x8xf32>, %b: tensor<5x8x7xf32>, %c: tensor<5x6x7xf32>) {
  linalg.batch_matmul {expected = ["batch_matmul_5x6x7x8", 1, 1, 1, 1]} ins(%a, %b : tensor<5x6x8xf32>, tensor<5x8x7xf32>) outs(%c : tensor<5x6x7xf32>) -> tensor<5x6x7xf32>
  return
}

func.func @open_rows(%a: tensor<?x8xf32>, %b: tensor<8x7xf32>, %c: tensor<?x7xf32>) {
  linalg.matmul {expected = ["matmul_Dx7x8", 0, 1, 1, 1]} ins(%a, %b : tensor<?x8xf32>, tensor<8x7xf32>) outs(%c : tensor<?x7xf32>) -> tensor<?x7xf32>
  return
}

func.func @windows(%x: tensor<2x3x10x12xf32>, %w: tensor<4x3x3x3xf32>, %c: tensor<2x4x8x10xf32>) {
  linalg.conv_2d_nchw_fchw {expected = ["convolution_4x160x27", 0, 1, 3, 3]} ins(%x, %w : tensor<2x3x10x12xf32>, tensor<4x3x3x3xf32>) outs(%c : tensor<2x4x8x10xf32>) -> tensor<2x4x8x10xf32>
  return
}

// Unsigned bytes times signed ones, the second operand transposed.
func.func @bytes(%a: tensor<6x8xi8>, %b: tensor<7x8xi8>, %c: tensor<6x7xi32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<6x8xi8>, tensor<7x8xi8>) outs(%c : tensor<6x7xi32>) attrs = {expected = ["matmul_6x7x8", 0, 1, 1, 1]} {
  ^bb0(%x: i8, %y: i8, %t: i32):
    %xx = arith.extui %x : i8 to i32
    %yy = arith.extsi %y : i8 to i32
    %p = arith.muli %xx, %yy : i32
    %s = arith.addi %t, %p : i32
    linalg.yield %s : i32
  } -> tensor<6x7xi32>
  return
}

func.func @one_input(%a: tensor<6x8xf32>, %c: tensor<6xf32>) {
  linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<6x8xf32>) outs(%c : tensor<6xf32>) {
  ^bb0(%x: f32, %t: f32):
    %s = arith.addf %t, %x : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  return
}

func.func @truth_values(%a: tensor<6x8xi1>, %b: tensor<7x8xi1>, %c: tensor<6x7xi1>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<6x8xi1>, tensor<7x8xi1>) outs(%c : tensor<6x7xi1>) {
  ^bb0(%x: i1, %y: i1, %t: i1):
    %p = arith.andi %x, %y : i1
    %s = arith.ori %t, %p : i1
    linalg.yield %s : i1
  } -> tensor<6x7xi1>
  return
}

func.func @a_difference(%a: tensor<6x8xf32>, %b: tensor<7x8xf32>, %c: tensor<6x7xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<6x8xf32>, tensor<7x8xf32>) outs(%c : tensor<6x7xf32>) {
  ^bb0(%x: f32, %y: f32, %t: f32):
    %p = arith.subf %x, %y : f32
    %s = arith.addf %t, %p : f32
    linalg.yield %s : f32
  } -> tensor<6x7xf32>
  return
}
