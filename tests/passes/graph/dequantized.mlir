// QDQ convolutions as torch-mlir writes them, of bytes and signed weights, for test_quantized_contractions.py. The test gives #zero, a
// scale's type !scale and its place #place.

#same = affine_map<(n, c, h, w) -> (n, c, h, w)>
#weight = affine_map<(f, g, c, h, w) -> (f, g, c, h, w)>

func.func @plain(%q: tensor<1x3x6x6xi8>, %w: tensor<4x1x3x3x3xi8>, %s: !scale, %c: tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32> {
  %scale = arith.constant 0.02 : f32
  %zero = arith.constant #zero
  %e0 = tensor.empty() : tensor<1x3x6x6xf32>
  %x = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q : tensor<1x3x6x6xi8>) outs(%e0 : tensor<1x3x6x6xf32>) {
  ^bb0(%in: i8, %out: f32):
    %0 = arith.extui %in : i8 to i64
    %1 = arith.subi %0, %zero : i64
    %2 = arith.sitofp %1 : i64 to f32
    %3 = arith.mulf %2, %scale : f32
    linalg.yield %3 : f32
  } -> tensor<1x3x6x6xf32>
  %e1 = tensor.empty() : tensor<4x1x3x3x3xf32>
  %y5 = linalg.generic {indexing_maps = [#weight, #place, #weight], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%w, %s : tensor<4x1x3x3x3xi8>, !scale) outs(%e1 : tensor<4x1x3x3x3xf32>) {
  ^bb0(%in: i8, %sw: f32, %out: f32):
    %0 = arith.sitofp %in : i8 to f32
    %1 = arith.mulf %0, %sw : f32
    linalg.yield %1 : f32
  } -> tensor<4x1x3x3x3xf32>
  %y = tensor.collapse_shape %y5 [[0, 1], [2], [3], [4]] : tensor<4x1x3x3x3xf32> into tensor<4x3x3x3xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %y : tensor<1x3x6x6xf32>, tensor<4x3x3x3xf32>) outs(%c : tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  return %r : tensor<1x4x4x4xf32>
}

func.func @padded(%q: tensor<1x3x6x6xi8>, %w: tensor<4x1x3x3x3xi8>, %s: !scale, %c: tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32> {
  %none = arith.constant 0.0 : f32
  %scale = arith.constant 0.02 : f32
  %zero = arith.constant #zero
  %e0 = tensor.empty() : tensor<1x3x6x6xf32>
  %x = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q : tensor<1x3x6x6xi8>) outs(%e0 : tensor<1x3x6x6xf32>) {
  ^bb0(%in: i8, %out: f32):
    %0 = arith.extui %in : i8 to i64
    %1 = arith.subi %0, %zero : i64
    %2 = arith.sitofp %1 : i64 to f32
    %3 = arith.mulf %2, %scale : f32
    linalg.yield %3 : f32
  } -> tensor<1x3x6x6xf32>
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %none : f32
  } : tensor<1x3x6x6xf32> to tensor<1x3x8x8xf32>
  %e1 = tensor.empty() : tensor<4x1x3x3x3xf32>
  %y5 = linalg.generic {indexing_maps = [#weight, #place, #weight], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%w, %s : tensor<4x1x3x3x3xi8>, !scale) outs(%e1 : tensor<4x1x3x3x3xf32>) {
  ^bb0(%in: i8, %sw: f32, %out: f32):
    %0 = arith.sitofp %in : i8 to f32
    %1 = arith.mulf %0, %sw : f32
    linalg.yield %1 : f32
  } -> tensor<4x1x3x3x3xf32>
  %y = tensor.collapse_shape %y5 [[0, 1], [2], [3], [4]] : tensor<4x1x3x3x3xf32> into tensor<4x3x3x3xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%p, %y : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) outs(%c : tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  return %r : tensor<1x4x6x6xf32>
}
