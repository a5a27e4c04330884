// Bodies on bytes, for test_bit_fields.py.

#at = affine_map<(i) -> (i)>

func.func @nibble(%x: tensor<4xi8>, %e: tensor<4xf32>) {
  linalg.generic {indexing_maps = [#at, #at], iterator_types = ["parallel"]} ins(%x : tensor<4xi8>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: i8, %o: f32):
    %four = arith.constant 4 : i8
    %moved = arith.shrui %a, %four : i8
    %mask = arith.constant 15 : i8
    %nibble = arith.andi %moved, %mask : i8
    %wide = arith.extui %nibble : i8 to i32
    %y = arith.uitofp %wide : i32 to f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return
}

func.func @low(%x: tensor<4xi8>, %e: tensor<4xf32>) {
  linalg.generic {indexing_maps = [#at, #at], iterator_types = ["parallel"]} ins(%x : tensor<4xi8>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: i8, %o: f32):
    %mask = arith.constant 3 : i8
    %low = arith.andi %a, %mask : i8
    %y = arith.uitofp %low : i8 to f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return
}

func.func @signed(%x: tensor<4xi8>, %e: tensor<4xf32>) {
  linalg.generic {indexing_maps = [#at, #at], iterator_types = ["parallel"]} ins(%x : tensor<4xi8>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: i8, %o: f32):
    %y = arith.sitofp %a : i8 to f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return
}

func.func @joined(%x: tensor<4xi8>, %z: tensor<4xi8>, %e: tensor<4xf32>) {
  linalg.generic {indexing_maps = [#at, #at, #at], iterator_types = ["parallel"]} ins(%x, %z : tensor<4xi8>, tensor<4xi8>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: i8, %b: i8, %o: f32):
    %fifteen = arith.constant 15 : i8
    %low = arith.andi %a, %fifteen : i8
    %one = arith.constant 1 : i8
    %bit = arith.andi %b, %one : i8
    %four = arith.constant 4 : i8
    %high = arith.shli %bit, %four : i8
    %whole = arith.ori %low, %high : i8
    %y = arith.uitofp %whole : i8 to f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return
}

func.func @known(%x: tensor<4xi8>, %e: tensor<4xf32>) {
  linalg.generic {indexing_maps = [#at, #at], iterator_types = ["parallel"]} ins(%x : tensor<4xi8>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: i8, %o: f32):
    %c = arith.constant -1 : i8
    %four = arith.constant 4 : i8
    %m = arith.shrui %c, %four : i8
    %y = arith.uitofp %m : i8 to f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return
}
