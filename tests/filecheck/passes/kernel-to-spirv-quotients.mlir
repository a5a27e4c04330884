// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=nvidia-h200}' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=lavapipe}' | filecheck %s --check-prefix=EXACT

// A quotient that is rounded to an integer is corrected by its error, unless
// the target divides exactly. The operations before it are not contracted.
// CHECK:      spirv.FMul {{.*}} {no_contraction} : f32
// CHECK-NEXT: spirv.FAdd {{.*}} {no_contraction} : f32
// CHECK-NEXT: %[[q:.*]] = spirv.FDiv %[[a:.*]], %[[b:.*]] : f32
// CHECK-NEXT: %[[n:.*]] = spirv.FNegate %[[q]] : f32
// CHECK-NEXT: %[[r:.*]] = spirv.GL.Fma %[[n]], %[[b]], %[[a]] {no_contraction} : f32
// CHECK-NEXT: %[[d:.*]] = spirv.FDiv %[[r]], %[[b]] : f32
// CHECK-NEXT: %[[c:.*]] = spirv.FAdd %[[q]], %[[d]] : f32
// CHECK-NEXT: %[[m:.*]] = spirv.GL.FAbs %[[q]] : f32
// CHECK-NEXT: %[[s:.*]] = spirv.FOrdLessThan %[[m]], %{{.*}} : f32
// CHECK-NEXT: %[[x:.*]] = spirv.Select %[[s]], %[[c]], %[[q]] : i1, f32
// CHECK-NEXT: spirv.GL.RoundEven %[[x]] : f32
// EXACT:      %[[q:.*]] = spirv.FDiv
// EXACT-NEXT: spirv.GL.RoundEven %[[q]] : f32
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %s = arith.constant 0.193591073 : f32
  %e = tensor.empty() : tensor<64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %h = arith.constant 0.5 : f32
    %p = arith.mulf %v, %h : f32
    %t = arith.addf %p, %v : f32
    %q = arith.divf %t, %s : f32
    %w = math.roundeven %q : f32
    linalg.yield %w : f32
  } -> tensor<64xf32>
  func.return %r : tensor<64xf32>
}
