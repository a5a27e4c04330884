// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},outline-dispatches,contraction-to-rows' | filecheck %s

// Columns are processed in four groups of four. An invocation loads its elements of the
// row before the loop, and the weights of a group before the products of the previous
// group. In the reduction, a lane gives away two of four sums, then one of two.

// CHECK-COUNT-4: memref.load %{{.*}} : memref<65536xvector<4xi32>
// CHECK: memref.load %{{.*}} : memref<64xvector<4xi32>
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// CHECK-COUNT-4: memref.load %{{.*}} : memref<65536xvector<4xi32>
// CHECK-NOT: memref.load
// CHECK-COUNT-32: math.fma
// CHECK-COUNT-6: spirv.GroupNonUniformShuffleXor
// CHECK-NOT: spirv.GroupNonUniformShuffleXor
// CHECK: scf.yield
// CHECK: gpu.barrier
func.func @main(%x: tensor<1x512xf16>, %w: tensor<1024x512xf16>) -> tensor<1x1024xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x1024xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x1024xf32>) -> tensor<1x1024xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                     affine_map<(m, n, k) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  } ins(%x, %w : tensor<1x512xf16>, tensor<1024x512xf16>) outs(%f : tensor<1x1024xf32>)
    attrs = {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 1, groups = 4, subgroups = [2, 1]>} {
  ^bb0(%p: f16, %q: f16, %a: f32):
    %pw = arith.extf %p : f16 to f32
    %qw = arith.extf %q : f16 to f32
    %m = arith.mulf %pw, %qw : f32
    %s = arith.addf %a, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x1024xf32>
  func.return %r : tensor<1x1024xf32>
}
