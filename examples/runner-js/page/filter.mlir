// A picture, each pixel a weighted sum of the nine around it.
func.func @main(%image: tensor<258x258xf32> {program.name = "image"},
                %weights: tensor<3x3xf32> {program.name = "weights"})
    -> (tensor<256x256xf32> {program.name = "filtered"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<256x256xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<256x256xf32>) -> tensor<256x256xf32>
  %filtered = linalg.conv_2d ins(%image, %weights : tensor<258x258xf32>, tensor<3x3xf32>)
                             outs(%start : tensor<256x256xf32>) -> tensor<256x256xf32>
  return %filtered : tensor<256x256xf32>
}
