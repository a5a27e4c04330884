// Columns of a product that are turned by pairs, for test_fold_readers.py: columns 0 to 3 are a result, 4 to 7 a row of one state,
// 8 to 11 a row of another.

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#same = affine_map<(i, j) -> (i, j)>
#neighbour = affine_map<(i, j) -> (i, 1 - j)>
#half = affine_map<(i, j) -> (1 - i, j)>
#folded = #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 1, subgroups = [2, 1]>

// Pairs are neighbours.
func.func @turned_neighbours(%x: tensor<1x512xf32>, %w: tensor<12x512xf32>, %bias: tensor<1x12xf32>, %past: index, %k: tensor<6x4xf16> {program.state = 1 : i64, program.value = dense<0.0> : tensor<6x4xf16>}, %v: tensor<6x4xf16> {program.state = 2 : i64, program.value = dense<0.0> : tensor<6x4xf16>}) -> (tensor<1x4xf16>, tensor<6x4xf16>, tensor<6x4xf16>) {
  %zero = arith.constant 0.0 : f32
  %ep = tensor.empty() : tensor<1x12xf32>
  %z = linalg.fill ins(%zero : f32) outs(%ep : tensor<1x12xf32>) -> tensor<1x12xf32>
  %p = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x512xf32>, tensor<12x512xf32>) outs(%z : tensor<1x12xf32>) attrs = {schedule = #folded} {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %t, %m : f32
    linalg.yield %r : f32
  } -> tensor<1x12xf32>
  %q = linalg.add ins(%p, %bias : tensor<1x12xf32>, tensor<1x12xf32>) outs(%ep : tensor<1x12xf32>) -> tensor<1x12xf32>
  %sa = tensor.extract_slice %q[0, 0] [1, 4] [1, 1] : tensor<1x12xf32> to tensor<1x4xf32>
  %fa = tensor.collapse_shape %sa [[0, 1]] : tensor<1x4xf32> into tensor<4xf32>
  %va = tensor.expand_shape %fa [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %ea = tensor.empty() : tensor<2x2xf16>
  %ta = linalg.generic {indexing_maps = [#same, #neighbour, #same], iterator_types = ["parallel", "parallel"]} ins(%va, %va : tensor<2x2xf32>, tensor<2x2xf32>) outs(%ea : tensor<2x2xf16>) {
  ^bb0(%a: f32, %b: f32, %o: f16):
    %side = linalg.index 1 : index
    %number = arith.index_cast %side : index to i32
    %zeroa = arith.constant 0 : i32
    %first = arith.cmpi eq, %number, %zeroa : i32
    %negative = arith.negf %b : f32
    %turn = arith.select %first, %negative, %b : f32
    %r = arith.addf %a, %turn : f32
    %h = arith.truncf %r : f32 to f16
    linalg.yield %h : f16
  } -> tensor<2x2xf16>
  %ca = tensor.collapse_shape %ta [[0, 1]] : tensor<2x2xf16> into tensor<4xf16>
  %ra = tensor.expand_shape %ca [[0, 1]] output_shape [1, 4] : tensor<4xf16> into tensor<1x4xf16>
  %sb = tensor.extract_slice %q[0, 4] [1, 4] [1, 1] : tensor<1x12xf32> to tensor<1x4xf32>
  %fb = tensor.collapse_shape %sb [[0, 1]] : tensor<1x4xf32> into tensor<4xf32>
  %vb = tensor.expand_shape %fb [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %eb = tensor.empty() : tensor<2x2xf16>
  %tb = linalg.generic {indexing_maps = [#same, #neighbour, #same], iterator_types = ["parallel", "parallel"]} ins(%vb, %vb : tensor<2x2xf32>, tensor<2x2xf32>) outs(%eb : tensor<2x2xf16>) {
  ^bb0(%a: f32, %b: f32, %o: f16):
    %side = linalg.index 1 : index
    %number = arith.index_cast %side : index to i32
    %zerob = arith.constant 0 : i32
    %first = arith.cmpi eq, %number, %zerob : i32
    %negative = arith.negf %b : f32
    %turn = arith.select %first, %negative, %b : f32
    %r = arith.addf %a, %turn : f32
    %h = arith.truncf %r : f32 to f16
    linalg.yield %h : f16
  } -> tensor<2x2xf16>
  %cb = tensor.collapse_shape %tb [[0, 1]] : tensor<2x2xf16> into tensor<4xf16>
  %rb = tensor.expand_shape %cb [[0, 1]] output_shape [1, 4] : tensor<4xf16> into tensor<1x4xf16>
  %k1 = tensor.insert_slice %rb into %k[%past, 0] [1, 4] [1, 1] : tensor<1x4xf16> into tensor<6x4xf16>
  %sv = tensor.extract_slice %q[0, 8] [1, 4] [1, 1] : tensor<1x12xf32> to tensor<1x4xf32>
  %ev = tensor.empty() : tensor<1x4xf16>
  %tv = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%sv : tensor<1x4xf32>) outs(%ev : tensor<1x4xf16>) {
  ^bb0(%a: f32, %o: f16):
    %h = arith.truncf %a : f32 to f16
    linalg.yield %h : f16
  } -> tensor<1x4xf16>
  %v1 = tensor.insert_slice %tv into %v[%past, 0] [1, 4] [1, 1] : tensor<1x4xf16> into tensor<6x4xf16>
  return %ra, %k1, %v1 : tensor<1x4xf16>, tensor<6x4xf16>, tensor<6x4xf16>
}

// Pairs are of the two halves of four columns.
func.func @turned_halves(%x: tensor<1x512xf32>, %w: tensor<12x512xf32>, %bias: tensor<1x12xf32>, %past: index, %k: tensor<6x4xf16> {program.state = 1 : i64, program.value = dense<0.0> : tensor<6x4xf16>}, %v: tensor<6x4xf16> {program.state = 2 : i64, program.value = dense<0.0> : tensor<6x4xf16>}) -> (tensor<1x4xf16>, tensor<6x4xf16>, tensor<6x4xf16>) {
  %zero = arith.constant 0.0 : f32
  %ep = tensor.empty() : tensor<1x12xf32>
  %z = linalg.fill ins(%zero : f32) outs(%ep : tensor<1x12xf32>) -> tensor<1x12xf32>
  %p = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<1x512xf32>, tensor<12x512xf32>) outs(%z : tensor<1x12xf32>) attrs = {schedule = #folded} {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %t, %m : f32
    linalg.yield %r : f32
  } -> tensor<1x12xf32>
  %q = linalg.add ins(%p, %bias : tensor<1x12xf32>, tensor<1x12xf32>) outs(%ep : tensor<1x12xf32>) -> tensor<1x12xf32>
  %sa = tensor.extract_slice %q[0, 0] [1, 4] [1, 1] : tensor<1x12xf32> to tensor<1x4xf32>
  %fa = tensor.collapse_shape %sa [[0, 1]] : tensor<1x4xf32> into tensor<4xf32>
  %va = tensor.expand_shape %fa [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %ea = tensor.empty() : tensor<2x2xf16>
  %ta = linalg.generic {indexing_maps = [#same, #half, #same], iterator_types = ["parallel", "parallel"]} ins(%va, %va : tensor<2x2xf32>, tensor<2x2xf32>) outs(%ea : tensor<2x2xf16>) {
  ^bb0(%a: f32, %b: f32, %o: f16):
    %side = linalg.index 0 : index
    %number = arith.index_cast %side : index to i32
    %zeroa = arith.constant 0 : i32
    %first = arith.cmpi eq, %number, %zeroa : i32
    %negative = arith.negf %b : f32
    %turn = arith.select %first, %negative, %b : f32
    %r = arith.addf %a, %turn : f32
    %h = arith.truncf %r : f32 to f16
    linalg.yield %h : f16
  } -> tensor<2x2xf16>
  %ca = tensor.collapse_shape %ta [[0, 1]] : tensor<2x2xf16> into tensor<4xf16>
  %ra = tensor.expand_shape %ca [[0, 1]] output_shape [1, 4] : tensor<4xf16> into tensor<1x4xf16>
  %sb = tensor.extract_slice %q[0, 4] [1, 4] [1, 1] : tensor<1x12xf32> to tensor<1x4xf32>
  %fb = tensor.collapse_shape %sb [[0, 1]] : tensor<1x4xf32> into tensor<4xf32>
  %vb = tensor.expand_shape %fb [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %eb = tensor.empty() : tensor<2x2xf16>
  %tb = linalg.generic {indexing_maps = [#same, #half, #same], iterator_types = ["parallel", "parallel"]} ins(%vb, %vb : tensor<2x2xf32>, tensor<2x2xf32>) outs(%eb : tensor<2x2xf16>) {
  ^bb0(%a: f32, %b: f32, %o: f16):
    %side = linalg.index 0 : index
    %number = arith.index_cast %side : index to i32
    %zerob = arith.constant 0 : i32
    %first = arith.cmpi eq, %number, %zerob : i32
    %negative = arith.negf %b : f32
    %turn = arith.select %first, %negative, %b : f32
    %r = arith.addf %a, %turn : f32
    %h = arith.truncf %r : f32 to f16
    linalg.yield %h : f16
  } -> tensor<2x2xf16>
  %cb = tensor.collapse_shape %tb [[0, 1]] : tensor<2x2xf16> into tensor<4xf16>
  %rb = tensor.expand_shape %cb [[0, 1]] output_shape [1, 4] : tensor<4xf16> into tensor<1x4xf16>
  %k1 = tensor.insert_slice %rb into %k[%past, 0] [1, 4] [1, 1] : tensor<1x4xf16> into tensor<6x4xf16>
  %sv = tensor.extract_slice %q[0, 8] [1, 4] [1, 1] : tensor<1x12xf32> to tensor<1x4xf32>
  %ev = tensor.empty() : tensor<1x4xf16>
  %tv = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%sv : tensor<1x4xf32>) outs(%ev : tensor<1x4xf16>) {
  ^bb0(%a: f32, %o: f16):
    %h = arith.truncf %a : f32 to f16
    linalg.yield %h : f16
  } -> tensor<1x4xf16>
  %v1 = tensor.insert_slice %tv into %v[%past, 0] [1, 4] [1, 1] : tensor<1x4xf16> into tensor<6x4xf16>
  return %ra, %k1, %v1 : tensor<1x4xf16>, tensor<6x4xf16>, tensor<6x4xf16>
}
