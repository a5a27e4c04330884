// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200 barred="cooperative-matrix=ha*"}' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200 only="cooperative-matrix=other","cooperative-matrix=half"}' | filecheck %s --check-prefix=ONLY
// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=nvidia-h200 barred="cooperative-matrix=half"}' | filecheck %s --check-prefix=WHOLE
// RUN: not xdsl-opt %s -p 'assign-schedule{target=nvidia-h200 barred="half"}' 2>&1 | filecheck %s --check-prefix=INVALID

// The passes take limits as options. The operations state the decisions that were made within the limits.

// CHECK: linalg.generic
// CHECK-SAME: instruction = fma
// CHECK-SAME: schedule.considered = [
// CHECK-SAME: #schedule.considered<"cooperative-matrix", false, "barred: --except cooperative-matrix=ha*">
// CHECK-SAME: #schedule.considered<"fma", true, "the fastest fitting tile of
// CHECK: schedule.yield %half

// ONLY: linalg.generic
// ONLY-SAME: instruction = coopmat
// ONLY-SAME: #schedule.considered<"cooperative-matrix", true, "the fastest fitting tile of

// WHOLE-NOT: CooperativeMatrixMulAdd
// WHOLE: spirv.func
// WHOLE-NOT: CooperativeMatrixMulAdd

// INVALID: 'half' names no layers for a path: write cooperative-matrix=LAYER

func.func @main(%a: tensor<40x64xf16>, %b: tensor<64x48xf16>, %c: tensor<40x48xf32>) -> tensor<40x48xf32> {
  %half = linalg.matmul ins(%a, %b : tensor<40x64xf16>, tensor<64x48xf16>) outs(%c : tensor<40x48xf32>) -> tensor<40x48xf32>
  func.return %half : tensor<40x48xf32>
}
