// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},fold-norms,outline-dispatches' | filecheck %s --check-prefix=SAME
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},fold-norms,outline-dispatches,contraction-to-rows' | filecheck %s

// A norm's sum uses the elements that an invocation also multiplies, so they are loaded once. Each
// subgroup adds up its part after the loop over groups of columns, before the barrier of the partial sums.

// SAME:      iterator_types = ["parallel", "reduction"]{{.*}}schedule.summed = 0

// CHECK:     %row_sums = memref.alloc
// CHECK:     arith.mulf [[X:%.*]], [[X]] : f32
// CHECK:     scf.for %group
// CHECK:     spirv.GroupNonUniformFAdd
// CHECK:     memref.store {{.*}} %row_sums
// CHECK:     gpu.barrier
// CHECK:     memref.load %row_sums
func.func @main(%x: tensor<1x512xf32>, %w: tensor<48x512xi8>) -> tensor<1x48xf32> {
  %zeros = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1xf32>
  %start = linalg.fill ins(%zeros : f32) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1x512xf32>) outs(%start : tensor<1xf32>) {
  ^bb0(%a: f32, %t: f32):
    %p = arith.mulf %a, %a : f32
    %s = arith.addf %t, %p : f32
    linalg.yield %s : f32
  } -> tensor<1xf32>
  %root = linalg.sqrt ins(%sum : tensor<1xf32>) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %en = tensor.empty() : tensor<1x512xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>, affine_map<(m, k) -> (m, k)>], iterator_types = ["parallel", "parallel"]} ins(%x, %root : tensor<1x512xf32>, tensor<1xf32>) outs(%en : tensor<1x512xf32>) {
  ^bb0(%a: f32, %s: f32, %o: f32):
    %r = arith.divf %a, %s : f32
    linalg.yield %r : f32
  } -> tensor<1x512xf32>
  %ew = tensor.empty() : tensor<48x512xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n, k)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<48x512xi8>) outs(%ew : tensor<48x512xf32>) {
  ^bb0(%q: i8, %o: f32):
    %s = arith.sitofp %q : i8 to f32
    linalg.yield %s : f32
  } -> tensor<48x512xf32>
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<1x48xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%er : tensor<1x48xf32>) -> tensor<1x48xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%y, %f : tensor<1x512xf32>, tensor<48x512xf32>) outs(%zr : tensor<1x48xf32>) attrs = {schedule = #schedule.rows<rows = 1, columns = 1, lanes = 32, steps = 1, bytes = 8, groups = 4, digits = 3, subgroups = [2, 1]>} {
  ^bb0(%p: f32, %q: f32, %t: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %t, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x48xf32>
  func.return %r : tensor<1x48xf32>
}
