// RUN: XDSL_ROUNDTRIP

// CHECK-LABEL: func.func @main
// CHECK: schedule.dispatch(%{{.*}}, %{{.*}}) : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16> {
// CHECK: ^{{.*}}(%{{.*}}: tensor<4x8xf16>, %{{.*}}: tensor<4x8xf16>):
// CHECK: schedule.yield %{{.*}} : tensor<4x8xf16>
func.func @main(%A : tensor<4x8xf16>, %B : tensor<4x8xf16>) -> tensor<4x8xf16> {
  %r = schedule.dispatch(%A, %B) : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16> {
  ^bb0(%a : tensor<4x8xf16>, %b : tensor<4x8xf16>):
    %0 = arith.addf %a, %b : tensor<4x8xf16>
    schedule.yield %0 : tensor<4x8xf16>
  }
  func.return %r : tensor<4x8xf16>
}
