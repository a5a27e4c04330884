// C = A B in mixed precision, of sizes that no tile divides.
func.func @main(%A: tensor<40x30xf16>, %B: tensor<30x21xf16>) -> tensor<40x21xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<40x21xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<40x21xf32>) -> tensor<40x21xf32>
  %r = linalg.matmul ins(%A, %B : tensor<40x30xf16>, tensor<30x21xf16>)
                     outs(%init : tensor<40x21xf32>) -> tensor<40x21xf32>
  return %r : tensor<40x21xf32>
}
