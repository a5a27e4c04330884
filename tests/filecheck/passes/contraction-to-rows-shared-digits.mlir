// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe},outline-dispatches,contraction-to-rows' | filecheck %s

// Four subgroups read the same units of K, for two groups of columns.
// Each invocation computes the digits of two quads, of which eight share
// a power of two. After a barrier it reads the digits of its own unit.

// CHECK-COUNT-4: memref.load %{{.*}} : memref<512xvector<4xi32>
// CHECK: %digits = memref.alloc() : memref<792xi32
// CHECK: memref.load %{{.*}} : memref<64xvector<4xf32>
// CHECK: arith.maxui
// CHECK-COUNT-3: spirv.GroupNonUniformShuffleXor
// CHECK-COUNT-6: memref.store %{{.*}}, %digits[
// CHECK: gpu.barrier
// CHECK-COUNT-24: memref.load %digits[
// CHECK: scf.for
// CHECK-COUNT-48: spirv.SDot
// CHECK-NOT: spirv.SDot
// CHECK: scf.yield
// CHECK: "gpu.return"
func.func @main(%x: tensor<1x8x2x16xf32>, %q: tensor<64x8x16xi8>, %d: tensor<64x8xf16>) -> tensor<1x64xf32> {
  %room = tensor.empty() : tensor<64x8x2x16xf32>
  %w = linalg.generic {
    indexing_maps = [affine_map<(n, b, h, j) -> (n, b, j)>, affine_map<(n, b, h, j) -> (n, b)>,
                     affine_map<(n, b, h, j) -> (n, b, h, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%q, %d : tensor<64x8x16xi8>, tensor<64x8xf16>) outs(%room : tensor<64x8x2x16xf32>) {
  ^bb1(%byte: i8, %scale: f16, %o: f32):
    %half = linalg.index 2 : index
    %h = arith.index_cast %half : index to i8
    %four = arith.constant 4 : i8
    %mask = arith.constant 15 : i8
    %shift = arith.muli %h, %four : i8
    %shifted = arith.shrui %byte, %shift : i8
    %bits = arith.andi %shifted, %mask : i8
    %number = arith.uitofp %bits : i8 to f32
    %s = arith.extf %scale : f16 to f32
    %u = arith.mulf %number, %s : f32
    linalg.yield %u : f32
  } -> tensor<64x8x2x16xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(m, n, b, h, j) -> (m, b, h, j)>, affine_map<(m, n, b, h, j) -> (n, b, h, j)>,
                     affine_map<(m, n, b, h, j) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]
  } ins(%x, %w : tensor<1x8x2x16xf32>, tensor<64x8x2x16xf32>) outs(%f : tensor<1x64xf32>)
    attrs = {schedule = #schedule.rows<rows = 1, columns = 2, lanes = 8, steps = 1, groups = 4, ahead = 2, digits = 3, subgroups = [1, 4]>} {
  ^bb0(%p: f32, %v: f32, %a: f32):
    %m = arith.mulf %p, %v : f32
    %s = arith.addf %a, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  func.return %r : tensor<1x64xf32>
}
