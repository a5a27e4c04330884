"""A program with a loop of a dynamic number of steps, for tests of runners."""

STEPS = """
#id = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<?x2x3xf32>, %w: tensor<3x3xf32>, %h0: tensor<2x3xf32>)
    -> (tensor<?x2x3xf32>, tensor<2x3xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x2x3xf32>
  %e = tensor.empty(%n) : tensor<?x2x3xf32>
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%h = %h0, %ys = %e)
      -> (tensor<2x3xf32>, tensor<?x2x3xf32>) {
    %back = arith.subi %n, %t : index
    %at = arith.subi %back, %c1 : index
    %part = tensor.extract_slice %x[%at, 0, 0] [1, 2, 3] [1, 1, 1]
        : tensor<?x2x3xf32> to tensor<2x3xf32>
    %o = tensor.empty() : tensor<2x3xf32>
    %z = linalg.fill ins(%zero : f32) outs(%o : tensor<2x3xf32>) -> tensor<2x3xf32>
    %p = linalg.matmul ins(%h, %w : tensor<2x3xf32>, tensor<3x3xf32>)
        outs(%z : tensor<2x3xf32>) -> tensor<2x3xf32>
    %s = linalg.add ins(%p, %part : tensor<2x3xf32>, tensor<2x3xf32>)
        outs(%o : tensor<2x3xf32>) -> tensor<2x3xf32>
    %y = tensor.insert_slice %s into %ys[%at, 0, 0] [1, 2, 3] [1, 1, 1]
        : tensor<2x3xf32> into tensor<?x2x3xf32>
    scf.yield %s, %y : tensor<2x3xf32>, tensor<?x2x3xf32>
  }
  return %r#1, %r#0 : tensor<?x2x3xf32>, tensor<2x3xf32>
}"""
"""A recurrence from the end of a sequence to its start: h = h w + x[t]."""
