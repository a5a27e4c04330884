// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200},outline-dispatches,contraction-to-rows' | filecheck %s

// The digits of 14,336 elements take 45 of 48 kB, which leaves no room for the sums of
// quads. The factor of the minima is computed from the digits, by products with ones.

// CHECK: %digits = memref.alloc() : memref<10848xi32
// CHECK-NOT: sums_of_quads
// CHECK: %scales_of_digits = memref.alloc() : memref<452xf32
// CHECK-NOT: sums_of_quads
// CHECK: gpu.barrier
// CHECK: arith.constant 16843009 : i32
// CHECK: spirv.SDot
func.func @main(%x: tensor<1x448x2x16xf32>, %q: tensor<8x448x16xi8>, %d: tensor<8x448xf16>, %m: tensor<8x448xf16>) -> tensor<1x8xf32> {
  %room = tensor.empty() : tensor<8x448x2x16xf32>
  %w = linalg.generic {
    indexing_maps = [affine_map<(n, b, h, j) -> (n, b, j)>, affine_map<(n, b, h, j) -> (n, b)>, affine_map<(n, b, h, j) -> (n, b)>,
                     affine_map<(n, b, h, j) -> (n, b, h, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%q, %d, %m : tensor<8x448x16xi8>, tensor<8x448xf16>, tensor<8x448xf16>) outs(%room : tensor<8x448x2x16xf32>) {
  ^bb1(%byte: i8, %scale: f16, %least: f16, %o: f32):
    %half = linalg.index 2 : index
    %h = arith.index_cast %half : index to i8
    %four = arith.constant 4 : i8
    %mask = arith.constant 15 : i8
    %shift = arith.muli %h, %four : i8
    %shifted = arith.shrui %byte, %shift : i8
    %bits = arith.andi %shifted, %mask : i8
    %number = arith.uitofp %bits : i8 to f32
    %s = arith.extf %scale : f16 to f32
    %t = arith.extf %least : f16 to f32
    %p = arith.mulf %number, %s : f32
    %u = arith.addf %p, %t : f32
    linalg.yield %u : f32
  } -> tensor<8x448x2x16xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x8xf32>) -> tensor<1x8xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(m, n, b, h, j) -> (m, b, h, j)>, affine_map<(m, n, b, h, j) -> (n, b, h, j)>,
                     affine_map<(m, n, b, h, j) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]
  } ins(%x, %w : tensor<1x448x2x16xf32>, tensor<8x448x2x16xf32>) outs(%f : tensor<1x8xf32>)
    attrs = {schedule = #schedule.rows<rows = 1, columns = 2, lanes = 32, steps = 1, groups = 2, digits = 3, subgroups = [14, 2]>} {
  ^bb0(%p: f32, %v: f32, %a: f32):
    %pv = arith.mulf %p, %v : f32
    %s = arith.addf %a, %pv : f32
    linalg.yield %s : f32
  } -> tensor<1x8xf32>
  func.return %r : tensor<1x8xf32>
}
