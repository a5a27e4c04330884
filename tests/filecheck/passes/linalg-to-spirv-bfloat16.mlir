// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=lavapipe}' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=nvidia-h200}' | filecheck %s --check-prefix=TYPED

// bfloat16 outside of cooperative matrices becomes its bits if the target lacks the type.

// CHECK:       spirv.module
// CHECK-NOT:   bf16
// CHECK:       spirv.ShiftLeftLogical

// TYPED:       spirv.module
// TYPED-SAME:  BFloat16TypeKHR
// TYPED:       spirv.FConvert %{{.*}} : bf16 to f32
func.func @main(%a: tensor<4x7xbf16>) -> tensor<4x7xf32> {
  %empty = tensor.empty() : tensor<4x7xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, p) -> (m, p)>, affine_map<(m, p) -> (m, p)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4x7xbf16>) outs(%empty : tensor<4x7xf32>) {
  ^bb0(%x: bf16, %o: f32):
    %y = arith.extf %x : bf16 to f32
    linalg.yield %y : f32
  } -> tensor<4x7xf32>
  func.return %r : tensor<4x7xf32>
}
