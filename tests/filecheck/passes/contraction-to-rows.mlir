// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200}' | filecheck %s --check-prefix=ASSIGN
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},outline-dispatches,contraction-to-rows' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200 barred="rows=*"}' | filecheck %s --check-prefix=BARRED
// RUN: xdsl-opt %s -p 'linalg-to-spirv{target=nvidia-h200}' | filecheck %s --check-prefix=SPIRV

// One row and 16384 columns: each of 32 lanes multiplies eight adjacent elements along
// K of four columns. The lanes add up at the end. The loop has no bounds checks.
// ASSIGN: #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 1, subgroups = [1, 4]>
// BARRED: #schedule.contraction<

// CHECK: %[[w:.*]] = schedule.flat_view %b {{.*}} to memref<1048576xvector<4xi32>
// CHECK: scf.for %[[k:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) -> (f32, f32, f32, f32)
// CHECK-COUNT-4: memref.load %[[w]]
// CHECK-NOT: arith.cmpi
// CHECK-COUNT-32: math.fma
// CHECK: scf.yield
// CHECK-COUNT-6: spirv.GroupNonUniformShuffleXor
// CHECK: scf.if
// CHECK: memref.store

// SPIRV: spirv.GroupNonUniformShuffleXor
func.func @main(%x: tensor<1x512xf16>, %w: tensor<16384x512xf16>) -> tensor<1x16384xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16384xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x16384xf32>) -> tensor<1x16384xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                     affine_map<(m, n, k) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  } ins(%x, %w : tensor<1x512xf16>, tensor<16384x512xf16>) outs(%f : tensor<1x16384xf32>) {
  ^bb0(%p: f16, %q: f16, %a: f32):
    %pw = arith.extf %p : f16 to f32
    %qw = arith.extf %q : f16 to f32
    %m = arith.mulf %pw, %qw : f32
    %s = arith.addf %a, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x16384xf32>
  func.return %r : tensor<1x16384xf32>
}
