// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe},outline-dispatches,contraction-to-rows' | filecheck %s

// Eight lanes share a word of eight numbers. A mask selects the number of a lane, and the lane's
// element of the row is scaled to correct the number's position. Two scales are loaded as a
// word. All lanes load elements of the row, and select their own. The loop has an unroll hint.

// CHECK: scf.for
// CHECK: memref.load %{{.*}} : memref<{{[0-9]+}}xvector<4xi32>
// CHECK: memref.load %{{.*}} : memref<32xi32
// CHECK: spirv.Bitcast %{{.*}} : i32 to vector<2xf16>
// CHECK: arith.andi %{{.*}}, %[[MASK:.*]] : i32
// CHECK-NEXT: arith.xori
// CHECK-NEXT: arith.sitofp %{{.*}} : i32 to f32
// CHECK: arith.andi %{{.*}}, %[[MASK]] : i32
// CHECK: } {unrolled}
// CHECK-COUNT-4: spirv.GroupNonUniformShuffleXor
func.func @main(%x: tensor<1x4x2x16xf32>, %q: tensor<16x4x16xi8>, %d: tensor<16x4xf16>, %m: tensor<16x4xf16>) -> tensor<1x16xf32> {
  %r = schedule.dispatch(%x, %q, %d, %m) : (tensor<1x4x2x16xf32>, tensor<16x4x16xi8>, tensor<16x4xf16>, tensor<16x4xf16>) -> tensor<1x16xf32> {
  ^bb0(%a: tensor<1x4x2x16xf32>, %b: tensor<16x4x16xi8>, %c: tensor<16x4xf16>, %e: tensor<16x4xf16>):
    %room = tensor.empty() : tensor<16x4x2x16xf32>
    %w = linalg.generic {
      indexing_maps = [affine_map<(n, b, h, j) -> (n, b, j)>, affine_map<(n, b, h, j) -> (n, b)>, affine_map<(n, b, h, j) -> (n, b)>, affine_map<(n, b, h, j) -> (n, b, h, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]
    } ins(%b, %c, %e : tensor<16x4x16xi8>, tensor<16x4xf16>, tensor<16x4xf16>) outs(%room : tensor<16x4x2x16xf32>) {
    ^bb1(%byte: i8, %scale: f16, %least: f16, %o: f32):
      %h = linalg.index 2 : index
      %i = arith.index_cast %h : index to i8
      %four = arith.constant 4 : i8
      %mask = arith.constant 15 : i8
      %shift = arith.muli %i, %four : i8
      %shifted = arith.shrui %byte, %shift : i8
      %bits = arith.andi %shifted, %mask : i8
      %number = arith.uitofp %bits : i8 to f32
      %s = arith.extf %scale : f16 to f32
      %t = arith.extf %least : f16 to f32
      %u = arith.mulf %number, %s : f32
      %v = arith.addf %u, %t : f32
      linalg.yield %v : f32
    } -> tensor<16x4x2x16xf32>
    %z = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<1x16xf32>
    %zeros = linalg.fill ins(%z : f32) outs(%empty : tensor<1x16xf32>) -> tensor<1x16xf32>
    %y = linalg.generic {
      indexing_maps = [affine_map<(m, n, b, h, j) -> (m, b, h, j)>, affine_map<(m, n, b, h, j) -> (n, b, h, j)>, affine_map<(m, n, b, h, j) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]
    } ins(%a, %w : tensor<1x4x2x16xf32>, tensor<16x4x2x16xf32>) outs(%zeros : tensor<1x16xf32>) attrs = {schedule = #schedule.rows<rows = 1, columns = 4, lanes = 1, steps = 1, within = 8, subgroups = [1, 1]>} {
    ^bb2(%p: f32, %f: f32, %sum: f32):
      %pf = arith.mulf %p, %f : f32
      %total = arith.addf %sum, %pf : f32
      linalg.yield %total : f32
    } -> tensor<1x16xf32>
    schedule.yield %y : tensor<1x16xf32>
  }
  return %r : tensor<1x16xf32>
}
