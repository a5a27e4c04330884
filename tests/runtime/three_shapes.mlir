// Three elementwise kernels, of which two have a scalar operand and one a tensor of one element.
func.func @main(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<1xf32>)
    -> (tensor<f32>, tensor<f32>, tensor<1xf32>) {
  %a_empty = tensor.empty() : tensor<f32>
  %a_r = linalg.generic {
    indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []
  } ins(%a : tensor<f32>) outs(%a_empty : tensor<f32>) {
  ^bb0(%x: f32, %y: f32):
    %z = arith.addf %x, %x : f32
    linalg.yield %z : f32
  } -> tensor<f32>
  %b_empty = tensor.empty() : tensor<f32>
  %b_r = linalg.generic {
    indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []
  } ins(%b : tensor<f32>) outs(%b_empty : tensor<f32>) {
  ^bb0(%x: f32, %y: f32):
    %z = arith.mulf %x, %x : f32
    linalg.yield %z : f32
  } -> tensor<f32>
  %c_empty = tensor.empty() : tensor<1xf32>
  %c_r = linalg.generic {
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]
  } ins(%c : tensor<1xf32>) outs(%c_empty : tensor<1xf32>) {
  ^bb0(%x: f32, %y: f32):
    %z = arith.subf %x, %x : f32
    linalg.yield %z : f32
  } -> tensor<1xf32>
  return %a_r, %b_r, %c_r : tensor<f32>, tensor<f32>, tensor<1xf32>
}
