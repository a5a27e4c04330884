// For test_elements.py: a body that only flips the sign of a byte.

#at = affine_map<(i) -> (i)>

func.func @flipped(%x: tensor<4xi8>, %e: tensor<4xi8>) {
  linalg.generic {indexing_maps = [#at, #at], iterator_types = ["parallel"]} ins(%x : tensor<4xi8>) outs(%e : tensor<4xi8>) {
  ^bb0(%a: i8, %o: i8):
    %sign = arith.constant -128 : i8
    %y = arith.xori %a, %sign : i8
    linalg.yield %y : i8
  } -> tensor<4xi8>
  return
}
