// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches' | filecheck %s

// A value computed from several tensors is rounded in its kernel, and a tensor in memory where it is multiplied.

// CHECK-LABEL: @computed
// CHECK:       schedule.dispatch(%a, %b)
// CHECK:         arith.mulf
// CHECK:         arith.truncf
// CHECK:         schedule.yield %{{.*}} : tensor<64x32xf16>
// CHECK:       schedule.dispatch(%{{.*}}, %w) : (tensor<64x32xf16>, tensor<32x48xf16>)
// CHECK-LABEL: @stored
// CHECK:       schedule.dispatch(%a, %w) : (tensor<64x32xf32>, tensor<32x48xf16>)
// CHECK:         arith.truncf
// CHECK-NOT:   schedule.dispatch
func.func @computed(%a: tensor<64x32xf32>, %b: tensor<64x32xf32>, %w: tensor<32x48xf16>) -> tensor<64x48xf32> {
  %e = tensor.empty() : tensor<64x32xf32>
  %p = linalg.mul ins(%a, %b : tensor<64x32xf32>, tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) -> tensor<64x32xf32>
  %eh = tensor.empty() : tensor<64x32xf16>
  %h = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<64x32xf32>) outs(%eh : tensor<64x32xf16>) {
  ^bb0(%x: f32, %o: f16):
    %t = arith.truncf %x : f32 to f16
    linalg.yield %t : f16
  } -> tensor<64x32xf16>
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<64x48xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<64x48xf32>) -> tensor<64x48xf32>
  %r = linalg.matmul ins(%h, %w : tensor<64x32xf16>, tensor<32x48xf16>) outs(%z : tensor<64x48xf32>) -> tensor<64x48xf32>
  func.return %r : tensor<64x48xf32>
}

func.func @stored(%a: tensor<64x32xf32>, %w: tensor<32x48xf16>) -> tensor<64x48xf32> {
  %eh = tensor.empty() : tensor<64x32xf16>
  %h = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<64x32xf32>) outs(%eh : tensor<64x32xf16>) {
  ^bb0(%x: f32, %o: f16):
    %t = arith.truncf %x : f32 to f16
    linalg.yield %t : f16
  } -> tensor<64x32xf16>
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<64x48xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<64x48xf32>) -> tensor<64x48xf32>
  %r = linalg.matmul ins(%h, %w : tensor<64x32xf16>, tensor<32x48xf16>) outs(%z : tensor<64x48xf32>) -> tensor<64x48xf32>
  func.return %r : tensor<64x48xf32>
}
