// RUN: xdsl-opt %s -p 'own-results' | filecheck %s

// An argument, a constant, and a tensor that is returned twice are copied.
// A tensor that an operation computes for only one result is not copied.

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

// An empty initial value, and a copy, have the type of the tensor,
// whose size may be constant although its type is dynamic.

// CHECK-LABEL: func.func @repeated
// CHECK: tensor.empty(%{{.*}}) : tensor<?xf32>
// CHECK: %[[OWN:.*]] = tensor.empty(%{{.*}}) : tensor<?xf32>
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[OWN]]) -> (tensor<?xf32>)
// CHECK: %[[COPY:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<?xf32>)
// CHECK: func.return %{{.*}}, %[[COPY]] : tensor<?xf32>, tensor<?xf32>
func.func @repeated(%x: tensor<4xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %e = tensor.empty(%c4) : tensor<?xf32>
  %view = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %e) -> (tensor<?xf32>) {
    %s = linalg.exp ins(%view : tensor<?xf32>) outs(%a : tensor<?xf32>) -> tensor<?xf32>
    scf.yield %s : tensor<?xf32>
  }
  func.return %r, %view : tensor<?xf32>, tensor<?xf32>
}
