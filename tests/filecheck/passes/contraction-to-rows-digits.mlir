// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},outline-dispatches,contraction-to-rows' | filecheck %s

// Four signed bytes in a word have one dot product with each digit of the row's elements.
// The greatest element determines the power of two. The scale is applied once per unit.

// CHECK: memref.load %{{.*}} : memref<512xf16
// CHECK-COUNT-16: arith.maxui
// CHECK-COUNT-16: math.fma
// CHECK-COUNT-8: spirv.SDot %{{.*}}, %{{.*}}, <PackedVectorFormat4x8Bit>
// CHECK: math.fma
// CHECK-COUNT-4: spirv.SDot
// CHECK-NOT: spirv.SDot
// CHECK-COUNT-2: math.fma
// CHECK-NOT: math.fma
// CHECK: "gpu.return"
func.func @main(%x: tensor<1x16x16xf32>, %q: tensor<32x16x16xi8>, %d: tensor<32x16xf16>) -> tensor<1x32xf32> {
  %room = tensor.empty() : tensor<32x16x16xf32>
  %w = linalg.generic {
    indexing_maps = [affine_map<(n, b, j) -> (n, b, j)>, affine_map<(n, b, j) -> (n, b)>,
                     affine_map<(n, b, j) -> (n, b, j)>],
    iterator_types = ["parallel", "parallel", "parallel"]
  } ins(%q, %d : tensor<32x16x16xi8>, tensor<32x16xf16>) outs(%room : tensor<32x16x16xf32>) {
  ^bb1(%byte: i8, %scale: f16, %o: f32):
    %number = arith.sitofp %byte : i8 to f32
    %s = arith.extf %scale : f16 to f32
    %u = arith.mulf %number, %s : f32
    linalg.yield %u : f32
  } -> tensor<32x16x16xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x32xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x32xf32>) -> tensor<1x32xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(m, n, b, j) -> (m, b, j)>, affine_map<(m, n, b, j) -> (n, b, j)>,
                     affine_map<(m, n, b, j) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"]
  } ins(%x, %w : tensor<1x16x16xf32>, tensor<32x16x16xf32>) outs(%f : tensor<1x32xf32>)
    attrs = {schedule = #schedule.rows<rows = 1, columns = 1, lanes = 16, steps = 1, digits = 3, subgroups = [1, 1]>} {
  ^bb0(%p: f32, %v: f32, %a: f32):
    %m = arith.mulf %p, %v : f32
    %s = arith.addf %a, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x32xf32>
  func.return %r : tensor<1x32xf32>
}
