// RUN: xdsl-opt %s -p 'note-ranges' | filecheck %s
// RUN: xdsl-opt %s -p 'note-ranges,narrow-to-32-bits' | filecheck %s --check-prefix=NARROW

// CHECK:      %w: tensor<3xi64> {program.value = dense<[1, -2, 3]> : tensor<3xi64>, program.range = [-2 : i64, 3 : i64]}
// CHECK-SAME: %n: tensor<3xi32> {program.value = dense<[1, -2, 3]> : tensor<3xi32>})
// NARROW:     arith.trunci
// NARROW:     arith.sitofp {{%.*}} : i32 to f32
func.func @main(%w: tensor<3xi64> {program.value = dense<[1, -2, 3]> : tensor<3xi64>}, %n: tensor<3xi32> {program.value = dense<[1, -2, 3]> : tensor<3xi32>}) -> tensor<3xf32> {
  %e = tensor.empty() : tensor<3xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%w, %n : tensor<3xi64>, tensor<3xi32>) outs(%e : tensor<3xf32>) {
  ^bb0(%a: i64, %b: i32, %o: f32):
    %f = arith.sitofp %a : i64 to f32
    linalg.yield %f : f32
  } -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}
