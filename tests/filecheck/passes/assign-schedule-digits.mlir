// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200}' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-dispatches,assign-schedule{target=amd-rdna4}' | filecheck %s --check-prefix=OTHER

// One row of packed weights on a target with fast packed dot products: four subgroups share
// all of K, four times as many compute the byte digits, and 256 workgroups run concurrently.

// CHECK: #schedule.rows<rows = 1, columns = 2, lanes = 32, steps = 1, groups = 7, digits = 3, subgroups = [4, 4]>
// OTHER: #schedule.rows<rows = 1
// OTHER-NOT: digits
func.func @main(%x: tensor<1x128x2x16xf32>, %q: tensor<14336x128x16xi8>, %d: tensor<14336x128xf16>) -> tensor<1x14336xf32> {
  %room = tensor.empty() : tensor<14336x128x2x16xf32>
  %w = linalg.generic {
    indexing_maps = [affine_map<(n, b, h, j) -> (n, b, j)>, affine_map<(n, b, h, j) -> (n, b)>,
                     affine_map<(n, b, h, j) -> (n, b, h, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%q, %d : tensor<14336x128x16xi8>, tensor<14336x128xf16>) outs(%room : tensor<14336x128x2x16xf32>) {
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
  } -> tensor<14336x128x2x16xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x14336xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x14336xf32>) -> tensor<1x14336xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(m, n, b, h, j) -> (m, b, h, j)>, affine_map<(m, n, b, h, j) -> (n, b, h, j)>,
                     affine_map<(m, n, b, h, j) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]
  } ins(%x, %w : tensor<1x128x2x16xf32>, tensor<14336x128x2x16xf32>) outs(%f : tensor<1x14336xf32>) {
  ^bb0(%p: f32, %v: f32, %a: f32):
    %m = arith.mulf %p, %v : f32
    %s = arith.addf %a, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x14336xf32>
  func.return %r : tensor<1x14336xf32>
}

// Fewer columns are processed in two groups. The second group is loaded before the first one is computed.

// CHECK: #schedule.rows<rows = 1, columns = 2, lanes = 32, steps = 1, groups = 2, ahead = 2, digits = 3, subgroups = [4, 4]>
func.func @narrow(%x: tensor<1x128x2x16xf32>, %q: tensor<4096x128x16xi8>, %d: tensor<4096x128xf16>) -> tensor<1x4096xf32> {
  %room = tensor.empty() : tensor<4096x128x2x16xf32>
  %w = linalg.generic {
    indexing_maps = [affine_map<(n, b, h, j) -> (n, b, j)>, affine_map<(n, b, h, j) -> (n, b)>,
                     affine_map<(n, b, h, j) -> (n, b, h, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%q, %d : tensor<4096x128x16xi8>, tensor<4096x128xf16>) outs(%room : tensor<4096x128x2x16xf32>) {
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
  } -> tensor<4096x128x2x16xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4096xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x4096xf32>) -> tensor<1x4096xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(m, n, b, h, j) -> (m, b, h, j)>, affine_map<(m, n, b, h, j) -> (n, b, h, j)>,
                     affine_map<(m, n, b, h, j) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]
  } ins(%x, %w : tensor<1x128x2x16xf32>, tensor<4096x128x2x16xf32>) outs(%f : tensor<1x4096xf32>) {
  ^bb0(%p: f32, %v: f32, %a: f32):
    %m = arith.mulf %p, %v : f32
    %s = arith.addf %a, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x4096xf32>
  func.return %r : tensor<1x4096xf32>
}

// A long K takes fourteen subgroups; two such workgroups fill a compute unit.

// CHECK: #schedule.rows<rows = 1, columns = 2, lanes = 32, steps = 1, groups = 8, digits = 3, subgroups = [14, 2]>
func.func @long(%x: tensor<1x448x2x16xf32>, %q: tensor<4096x448x16xi8>, %d: tensor<4096x448xf16>) -> tensor<1x4096xf32> {
  %room = tensor.empty() : tensor<4096x448x2x16xf32>
  %w = linalg.generic {
    indexing_maps = [affine_map<(n, b, h, j) -> (n, b, j)>, affine_map<(n, b, h, j) -> (n, b)>,
                     affine_map<(n, b, h, j) -> (n, b, h, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%q, %d : tensor<4096x448x16xi8>, tensor<4096x448xf16>) outs(%room : tensor<4096x448x2x16xf32>) {
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
  } -> tensor<4096x448x2x16xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4096xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x4096xf32>) -> tensor<1x4096xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(m, n, b, h, j) -> (m, b, h, j)>, affine_map<(m, n, b, h, j) -> (n, b, h, j)>,
                     affine_map<(m, n, b, h, j) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]
  } ins(%x, %w : tensor<1x448x2x16xf32>, tensor<4096x448x2x16xf32>) outs(%f : tensor<1x4096xf32>) {
  ^bb0(%p: f32, %v: f32, %a: f32):
    %m = arith.mulf %p, %v : f32
    %s = arith.addf %a, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x4096xf32>
  func.return %r : tensor<1x4096xf32>
}
