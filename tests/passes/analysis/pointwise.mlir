// Functions for test_pointwise.py.

#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
#i = affine_map<(i, j) -> (i)>
#ii = affine_map<(i, j) -> (i, i)>
#sum = affine_map<(i, j) -> (i + j)>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// Generalized

func.func @named(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %r = linalg.sub ins(%x, %y : tensor<3x4xf32>, tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

func.func @turned(%x: tensor<3x4x5xf32>) -> tensor<5x3x4xf32> {
  %e = tensor.empty() : tensor<5x3x4xf32>
  %r = linalg.transpose ins(%x : tensor<3x4x5xf32>) outs(%e : tensor<5x3x4xf32>) permutation = [2, 0, 1]
  return %r : tensor<5x3x4xf32>
}

func.func @repeated(%x: tensor<3x5xf32>) -> tensor<3x4x5xf32> {
  %e = tensor.empty() : tensor<3x4x5xf32>
  %r = linalg.broadcast ins(%x : tensor<3x5xf32>) outs(%e : tensor<3x4x5xf32>) dimensions = [1]
  return %r : tensor<3x4x5xf32>
}

func.func @summed(%x: tensor<3x4x5xf32>, %s: tensor<4xf32>) -> tensor<4xf32> {
  %r = linalg.reduce ins(%x : tensor<3x4x5xf32>) outs(%s : tensor<4xf32>) dimensions = [0, 2]
    (%a: f32, %t: f32) {
      %n = arith.addf %a, %t : f32
      linalg.yield %n : f32
    }
  return %r : tensor<4xf32>
}

func.func @reading_its_output(%x: tensor<3x4xf32>, %s: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %r = linalg.generic {indexing_maps = [#ij, #ji], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3x4xf32>) outs(%s : tensor<4x3xf32>) {
  ^bb0(%a: f32, %t: f32):
    %n = arith.subf %t, %a : f32
    linalg.yield %n : f32
  } -> tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}

func.func @ignoring_its_output(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %s = linalg.exp ins(%x : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  %r = linalg.negf ins(%x : tensor<3x4xf32>) outs(%s : tensor<3x4xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

func.func @scalar(%x: f32) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> ()>, #ij], iterator_types = ["parallel", "parallel"]} ins(%x : f32) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: f32, %t: f32):
    linalg.yield %a : f32
  } -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

func.func @outer_scalar(%x: f32) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %r = linalg.generic {indexing_maps = [#ij], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<3x4xf32>) {
  ^bb0(%t: f32):
    linalg.yield %x : f32
  } -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

func.func @computed(%x: tensor<3x4xf32>, %k: f32) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %r = linalg.generic {indexing_maps = [#ij, affine_map<(i, j) -> ()>, #ij], iterator_types = ["parallel", "parallel"]} ins(%x, %k : tensor<3x4xf32>, f32) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %n = arith.subf %a, %b : f32
    linalg.yield %n : f32
  } -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// Products

func.func @plain(%x: tensor<3x4xf32>, %y: tensor<4x5xf32>, %s: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %y : tensor<3x4xf32>, tensor<4x5xf32>) outs(%s : tensor<3x5xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %p = arith.mulf %b, %a : f32
    %n = arith.addf %p, %t : f32
    linalg.yield %n : f32
  } -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}

func.func @fused(%x: tensor<3x4xf16>, %y: tensor<4x5xf32>, %s: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %y : tensor<3x4xf16>, tensor<4x5xf32>) outs(%s : tensor<3x5xf32>) {
  ^bb0(%a: f16, %b: f32, %t: f32):
    %w = arith.extf %a : f16 to f32
    %e = math.exp %b : f32
    %n = math.fma %w, %e, %t : f32
    linalg.yield %n : f32
  } -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}

func.func @bytes(%x: tensor<3x4xi8>, %y: tensor<4x5xi8>, %s: tensor<3x5xi32>) -> tensor<3x5xi32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %y : tensor<3x4xi8>, tensor<4x5xi8>) outs(%s : tensor<3x5xi32>) {
  ^bb0(%a: i8, %b: i8, %t: i32):
    %a1 = arith.extui %a : i8 to i16
    %a2 = arith.extsi %a1 : i16 to i32
    %b1 = arith.extsi %b : i8 to i32
    %p = arith.muli %a2, %b1 : i32
    %n = arith.addi %t, %p : i32
    linalg.yield %n : i32
  } -> tensor<3x5xi32>
  return %r : tensor<3x5xi32>
}

// A negative number that is extended by its sign, then by zeros: only the zeros are an extension of a source.
func.func @mixed_bytes(%x: tensor<3x4xi8>, %y: tensor<4x5xi8>, %s: tensor<3x5xi32>) -> tensor<3x5xi32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %y : tensor<3x4xi8>, tensor<4x5xi8>) outs(%s : tensor<3x5xi32>) {
  ^bb0(%a: i8, %b: i8, %t: i32):
    %a1 = arith.extsi %a : i8 to i16
    %a2 = arith.extui %a1 : i16 to i32
    %b1 = arith.extsi %b : i8 to i32
    %p = arith.muli %a2, %b1 : i32
    %n = arith.addi %t, %p : i32
    linalg.yield %n : i32
  } -> tensor<3x5xi32>
  return %r : tensor<3x5xi32>
}
