// Depthwise convolutions of unsigned bytes less a zero point, for test_quantized_contractions.py. The test gives the zero point's type
// !zero and its place #place.

#same = affine_map<(n, c, h, w) -> (n, c, h, w)>
#window = affine_map<(n, c, h, w, i, j) -> (n, c, h + i, w + j)>
#filter = affine_map<(n, c, h, w, i, j) -> (c, i, j)>
#result = affine_map<(n, c, h, w, i, j) -> (n, c, h, w)>

func.func @plain(%q: tensor<1x3x6x6xi8>, %z: !zero, %w: tensor<3x3x3xi8>) -> tensor<1x3x4x4xi32> {
  %none = arith.constant 0 : i32
  %e0 = tensor.empty() : tensor<1x3x6x6xi32>
  %x = linalg.generic {indexing_maps = [#same, #place, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q, %z : tensor<1x3x6x6xi8>, !zero) outs(%e0 : tensor<1x3x6x6xi32>) {
  ^bb0(%in: i8, %zero: i8, %out: i32):
    %0 = arith.extui %in : i8 to i32
    %1 = arith.extui %zero : i8 to i32
    %2 = arith.subi %0, %1 : i32
    linalg.yield %2 : i32
  } -> tensor<1x3x6x6xi32>
  %e1 = tensor.empty() : tensor<1x3x4x4xi32>
  %c = linalg.fill ins(%none : i32) outs(%e1 : tensor<1x3x4x4xi32>) -> tensor<1x3x4x4xi32>
  %r = linalg.generic {indexing_maps = [#window, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<1x3x6x6xi32>, tensor<3x3x3xi8>) outs(%c : tensor<1x3x4x4xi32>) {
  ^bb0(%a: i32, %b: i8, %acc: i32):
    %0 = arith.extsi %b : i8 to i32
    %1 = arith.muli %a, %0 : i32
    %2 = arith.addi %acc, %1 : i32
    linalg.yield %2 : i32
  } -> tensor<1x3x4x4xi32>
  return %r : tensor<1x3x4x4xi32>
}

// Padded with zeros of 32 bits.
func.func @padded(%q: tensor<1x3x6x6xi8>, %z: !zero, %w: tensor<3x3x3xi8>) -> tensor<1x3x5x5xi32> {
  %none = arith.constant 0 : i32
  %e0 = tensor.empty() : tensor<1x3x6x6xi32>
  %x = linalg.generic {indexing_maps = [#same, #place, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q, %z : tensor<1x3x6x6xi8>, !zero) outs(%e0 : tensor<1x3x6x6xi32>) {
  ^bb0(%in: i8, %zero: i8, %out: i32):
    %0 = arith.extui %in : i8 to i32
    %1 = arith.extui %zero : i8 to i32
    %2 = arith.subi %0, %1 : i32
    linalg.yield %2 : i32
  } -> tensor<1x3x6x6xi32>
  %p = tensor.pad %x low[0, 0, 0, 1] high[0, 0, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %none : i32
  } : tensor<1x3x6x6xi32> to tensor<1x3x7x7xi32>
  %e1 = tensor.empty() : tensor<1x3x5x5xi32>
  %c = linalg.fill ins(%none : i32) outs(%e1 : tensor<1x3x5x5xi32>) -> tensor<1x3x5x5xi32>
  %r = linalg.generic {indexing_maps = [#window, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %w : tensor<1x3x7x7xi32>, tensor<3x3x3xi8>) outs(%c : tensor<1x3x5x5xi32>) {
  ^bb0(%a: i32, %b: i8, %acc: i32):
    %0 = arith.extsi %b : i8 to i32
    %1 = arith.muli %a, %0 : i32
    %2 = arith.addi %acc, %1 : i32
    linalg.yield %2 : i32
  } -> tensor<1x3x5x5xi32>
  return %r : tensor<1x3x5x5xi32>
}
