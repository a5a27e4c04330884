// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},fold-elements' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},fold-elements,outline-dispatches,contraction-to-rows' | filecheck %s --check-prefix=KERNEL

// There is one dispatch: the halves of %x are read in place, and are multiplied where the product reads them.
// CHECK:      [[X:%.*]] = tensor.expand_shape %x
// CHECK:      schedule.dispatch(%w, [[X]])
// CHECK-NOT:  tensor.extract_slice
// CHECK:      affine_map<(d0, d1) -> (d0, 0, d1)>, affine_map<(d0, d1) -> (d0, 1, d1)>
// CHECK:      arith.mulf
// CHECK:      schedule = #schedule.rows
// CHECK:      schedule.yield
// CHECK-NOT:  schedule.dispatch

// Each invocation computes its elements of the row before the loop over groups of columns.
// KERNEL:      arith.mulf
// KERNEL:      scf.for %group
// KERNEL:      spirv.SDot
func.func @main(%x: tensor<1x1024xf32>, %w: tensor<48x512xi8>) -> tensor<1x48xf32> {
  %a = tensor.extract_slice %x[0, 0] [1, 512] [1, 1] : tensor<1x1024xf32> to tensor<1x512xf32>
  %b = tensor.extract_slice %x[0, 512] [1, 512] [1, 1] : tensor<1x1024xf32> to tensor<1x512xf32>
  %e = tensor.empty() : tensor<1x512xf32>
  %h = linalg.mul ins(%a, %b : tensor<1x512xf32>, tensor<1x512xf32>) outs(%e : tensor<1x512xf32>) -> tensor<1x512xf32>
  %ew = tensor.empty() : tensor<48x512xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n, k)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<48x512xi8>) outs(%ew : tensor<48x512xf32>) {
  ^bb0(%q: i8, %o: f32):
    %s = arith.sitofp %q : i8 to f32
    linalg.yield %s : f32
  } -> tensor<48x512xf32>
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<1x48xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%er : tensor<1x48xf32>) -> tensor<1x48xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %f : tensor<1x512xf32>, tensor<48x512xf32>) outs(%zr : tensor<1x48xf32>) attrs = {schedule = #schedule.rows<rows = 1, columns = 1, lanes = 32, steps = 1, groups = 4, digits = 3, subgroups = [1, 1]>} {
  ^bb0(%p: f32, %q: f32, %t: f32):
    %m = arith.mulf %p, %q : f32
    %s = arith.addf %t, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x48xf32>
  func.return %r : tensor<1x48xf32>
}
