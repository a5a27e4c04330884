// RUN: xdsl-opt %s -p 'lift-weights' --split-input-file | filecheck %s

// A short literal is not lifted, and a constant of equal elements is computed where it is needed.
// CHECK:      func.func @short(%x: tensor<2xf32> {program.name = "x", program.type = "f32"},
// CHECK-SAME:   %w: tensor<2xf32> {program.name = "w", program.type = "f32",
// CHECK-SAME:     program.value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>}) -> tensor<2xf32> {
// CHECK-NEXT:   %c = arith.constant dense<3.000000e+00> : tensor<2xf32>
// CHECK-NEXT:   %e = tensor.empty() : tensor<2xf32>
// CHECK-NEXT:   linalg.add ins(%x, %w
func.func @short(%x: tensor<2xf32>) -> tensor<2xf32> {
  %w = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %c = arith.constant dense<3.0> : tensor<2xf32>
  %e = tensor.empty() : tensor<2xf32>
  %r = linalg.add ins(%x, %w : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %s = linalg.mul ins(%r, %c : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

// A resource is named after the function and the argument. A resource without data is unchanged.
// CHECK:      func.func @resources(%x: tensor<2xf32>
// CHECK-SAME:   %w: tensor<2xf32> {{.*}}program.value = dense_resource<resources.w> : tensor<2xf32>}
// CHECK-SAME:   %w_1: tensor<2xf32> {{.*}}program.value = dense_resource<absent> : tensor<2xf32>}
// CHECK:      builtin: {
// CHECK-NEXT:   resources.w: "0x040000000000803f00000040"
func.func @resources(%x: tensor<2xf32>) -> tensor<2xf32> {
  %w = arith.constant dense_resource<given> : tensor<2xf32>
  %w_1 = arith.constant dense_resource<absent> : tensor<2xf32>
  %e = tensor.empty() : tensor<2xf32>
  %r = linalg.add ins(%x, %w : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %s = linalg.add ins(%r, %w_1 : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

{-#
  dialect_resources: {
    builtin: {
      given: "0x040000000000803f00000040"
    }
  }
#-}

// -----

// The initial value of an accumulator is not lifted. A function that another one calls keeps its arguments.
// CHECK-LABEL: func.func @starts(%x: tensor<2xf32>) -> tensor<2xf32> {
// CHECK-NEXT:    arith.constant dense<[1.000000e+00, 2.000000e+00]>
func.func @starts(%x: tensor<2xf32>) -> tensor<2xf32> {
  %w = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %r = linalg.add ins(%x, %x : tensor<2xf32>, tensor<2xf32>) outs(%w : tensor<2xf32>) -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// CHECK-LABEL: func.func @called(%x: tensor<2xf32>) -> tensor<2xf32> {
// CHECK-NEXT:    arith.constant dense<[1.000000e+00, 2.000000e+00]>
func.func @called(%x: tensor<2xf32>) -> tensor<2xf32> {
  %w = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %r = linalg.add ins(%x, %w : tensor<2xf32>, tensor<2xf32>) outs(%x : tensor<2xf32>) -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

func.func @caller(%x: tensor<2xf32>) -> tensor<2xf32> {
  %r = func.call @called(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}
