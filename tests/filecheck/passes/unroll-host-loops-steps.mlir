// RUN: xdsl-opt %s -p 'unroll-host-loops,own-results,update-states' | filecheck %s

// A loop with a dynamic number of iterations keeps its body as a function. The function's arguments
// are the values that it reads from outside, without sizes and empty tensors. It carries its states.

// CHECK-LABEL: func.func @main
// CHECK:         %[[N:.*]] = tensor.dim
// CHECK:         %[[H:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<4xf32>)
// CHECK:         scf.for %[[T:.*]] = %{{.*}} to %[[N]] step %{{.*}} iter_args(%[[S:.*]] = %[[H]])
// CHECK-NEXT:      func.call @main_step0(%[[T]], %{{.*}}, %[[S]]) : (index, tensor<?x4xf32>, tensor<4xf32>)
// CHECK-NEXT:      scf.yield
// CHECK:       func.func private @main_step0(%{{.*}}: index, %{{.*}}: tensor<?x4xf32>, %{{.*}}: tensor<4xf32> {program.state = 0 : i64}) -> tensor<4xf32>
// CHECK:         linalg.add
// CHECK:         schedule.dispatch(%{{.*}}) attributes {schedule.updates = array<i64: 1>}
func.func @main(%x: tensor<?x4xf32>, %h0: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%h = %h0) -> (tensor<4xf32>) {
    %p = tensor.extract_slice %x[%t, 0] [1, 4] [1, 1] : tensor<?x4xf32> to tensor<4xf32>
    %s = linalg.add ins(%h, %p : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
