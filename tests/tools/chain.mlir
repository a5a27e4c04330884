// Four products, each with the previous result as operand.
func.func @main(%r0: tensor<16x16xf16>, %a: tensor<16x16xf16>) -> tensor<16x16xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<16x16xf16>
  %i = linalg.fill ins(%zero : f16) outs(%e : tensor<16x16xf16>) -> tensor<16x16xf16>
  %r1 = linalg.matmul ins(%r0, %a : tensor<16x16xf16>, tensor<16x16xf16>)
                      outs(%i : tensor<16x16xf16>) -> tensor<16x16xf16>
  %r2 = linalg.matmul ins(%r1, %a : tensor<16x16xf16>, tensor<16x16xf16>)
                      outs(%i : tensor<16x16xf16>) -> tensor<16x16xf16>
  %r3 = linalg.matmul ins(%r2, %a : tensor<16x16xf16>, tensor<16x16xf16>)
                      outs(%i : tensor<16x16xf16>) -> tensor<16x16xf16>
  %r4 = linalg.matmul ins(%r3, %a : tensor<16x16xf16>, tensor<16x16xf16>)
                      outs(%i : tensor<16x16xf16>) -> tensor<16x16xf16>
  return %r4 : tensor<16x16xf16>
}
