func.func @main(%x: tensor<?x7xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %d = tensor.dim %x, %c0 : tensor<?x7xf32>
  %e = tensor.empty(%d) : tensor<?xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n,h) -> (n,h)>, affine_map<(n,h)->(n)>], iterator_types=["parallel","reduction"]} ins(%x : tensor<?x7xf32>) outs(%i : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %b, %a : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
