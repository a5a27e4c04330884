// RUN: xdsl-opt %s -p 'own-results' | filecheck %s

// An argument, a constant, and a tensor that is returned twice are copied; what an operation
// computes for one result alone is not.

// CHECK-LABEL: func.func @main
// CHECK: %[[C:.*]] = arith.constant
// CHECK: %[[R:.*]] = linalg.exp
// CHECK: %[[V:.*]] = tensor.expand_shape %[[R]]
// CHECK: %[[A2:.*]] = linalg.generic {{.*}} ins(%a : tensor<4xf32>)
// CHECK: %[[C2:.*]] = linalg.generic {{.*}} ins(%[[C]] : tensor<4xf32>)
// CHECK: %[[R2:.*]] = linalg.generic {{.*}} ins(%[[R]] : tensor<4xf32>)
// CHECK: func.return %[[A2]], %[[C2]], %[[V]], %[[R2]]
func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<1x4xf32>, tensor<4xf32>) {
  %c = arith.constant dense<1.0> : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.exp ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %v = tensor.expand_shape %r [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
  func.return %a, %c, %v, %r : tensor<4xf32>, tensor<4xf32>, tensor<1x4xf32>, tensor<4xf32>
}
