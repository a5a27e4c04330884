// RUN: xdsl-opt %s -p 'split-reductions{target=nvidia-h200}' --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'split-reductions{target=lavapipe}' --split-input-file | filecheck %s --check-prefix=WHOLE
// RUN: xdsl-opt %s -p 'split-reductions{parts=4}' --split-input-file | filecheck %s --check-prefix=FOUR

// WHOLE-NOT: tensor.expand_shape

// Few results with a deep reduction are computed as parallel parts, and then their sum.

// CHECK-LABEL: @deep
// CHECK:       [[A:%.*]] = tensor.expand_shape %a {{.*}} : tensor<128x16384xf16> into tensor<128x16x1024xf16>
// CHECK-NEXT:  [[B:%.*]] = tensor.expand_shape %b {{.*}} : tensor<16384x64xf16> into tensor<16x1024x64xf16>
// CHECK:       [[P:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1, d0, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins([[A]], [[B]]
// CHECK:       linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins([[P]] : tensor<16x128x64xf32>) outs(%init
// FOUR-LABEL:  @deep
// FOUR:        tensor<128x16384xf16> into tensor<128x4x4096xf16>
func.func @deep(%a: tensor<128x16384xf16>, %b: tensor<16384x64xf16>) -> tensor<128x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<128x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<128x64xf32>) -> tensor<128x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<128x16384xf16>, tensor<16384x64xf16>) outs(%init : tensor<128x64xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %u = arith.extf %x : f16 to f32
    %v = arith.extf %y : f16 to f32
    %p = arith.mulf %u, %v : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<128x64xf32>
  func.return %r : tensor<128x64xf32>
}

// -----

// Few rows that another operation computes are not split: their kernel divides K within a workgroup.

// CHECK-LABEL: @few
// CHECK-NOT:   tensor.expand_shape
// FOUR-LABEL:  @few
func.func @few(%a: tensor<1x2048xf32>, %scale: tensor<1xf32>, %b: tensor<128x2048xf32>) -> tensor<1x128xf32> {
  %zero = arith.constant 0.0 : f32
  %one = tensor.empty() : tensor<1xf32>
  %none = linalg.fill ins(%zero : f32) outs(%one : tensor<1xf32>) -> tensor<1xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<1x2048xf32>) outs(%none : tensor<1xf32>) {
  ^bb0(%x: f32, %s: f32):
    %t = arith.addf %s, %x : f32
    linalg.yield %t : f32
  } -> tensor<1xf32>
  %row = tensor.empty() : tensor<1x2048xf32>
  %scaled = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>, affine_map<(m, k) -> (m, k)>], iterator_types = ["parallel", "parallel"]} ins(%a, %sum : tensor<1x2048xf32>, tensor<1xf32>) outs(%row : tensor<1x2048xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %t = arith.mulf %x, %y : f32
    linalg.yield %t : f32
  } -> tensor<1x2048xf32>
  %empty = tensor.empty() : tensor<1x128xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x128xf32>) -> tensor<1x128xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%scaled, %b : tensor<1x2048xf32>, tensor<128x2048xf32>) outs(%init : tensor<1x128xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<1x128xf32>
  func.return %r : tensor<1x128xf32>
}

// -----

// Sums with an initial value, sums in binary16, and a depth that four parts do not divide are not split.

// FOUR-LABEL: @begun
// FOUR-NOT:   tensor.expand_shape
func.func @begun(%a: tensor<8x64xf32>, %b: tensor<64x8xf32>, %c: tensor<8x8xf32>, %d: tensor<8x64xf16>, %e: tensor<64x8xf16>, %f: tensor<8x63xf32>, %g: tensor<63x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf16>, tensor<8x8xf32>) {
  %r = linalg.matmul ins(%a, %b : tensor<8x64xf32>, tensor<64x8xf32>) outs(%c : tensor<8x8xf32>) -> tensor<8x8xf32>
  %q, %p = func.call @others(%d, %e, %f, %g) : (tensor<8x64xf16>, tensor<64x8xf16>, tensor<8x63xf32>, tensor<63x8xf32>) -> (tensor<8x8xf16>, tensor<8x8xf32>)
  func.return %r, %q, %p : tensor<8x8xf32>, tensor<8x8xf16>, tensor<8x8xf32>
}
func.func private @others(%d: tensor<8x64xf16>, %e: tensor<64x8xf16>, %f: tensor<8x63xf32>, %g: tensor<63x8xf32>) -> (tensor<8x8xf16>, tensor<8x8xf32>) {
  %half = arith.constant 0.0 : f16
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<8x8xf16>
  %1 = linalg.fill ins(%half : f16) outs(%0 : tensor<8x8xf16>) -> tensor<8x8xf16>
  %2 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%d, %e : tensor<8x64xf16>, tensor<64x8xf16>) outs(%1 : tensor<8x8xf16>) {
  ^bb0(%x: f16, %y: f16, %s: f16):
    %p = arith.mulf %x, %y : f16
    %t = arith.addf %s, %p : f16
    linalg.yield %t : f16
  } -> tensor<8x8xf16>
  %3 = tensor.empty() : tensor<8x8xf32>
  %4 = linalg.fill ins(%zero : f32) outs(%3 : tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%f, %g : tensor<8x63xf32>, tensor<63x8xf32>) outs(%4 : tensor<8x8xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<8x8xf32>
  func.return %2, %5 : tensor<8x8xf16>, tensor<8x8xf32>
}

// -----

// A dynamic number of rows is multiplied by packed weights. Each part gets whole blocks,
// by the block's index in the planes and in K. Without `parts` the operation is not split.

// CHECK-LABEL: @packed
// CHECK-NOT:   tensor.expand_shape
// FOUR-LABEL:  @packed
// FOUR:        [[Q:%.*]] = tensor.expand_shape %q {{.*}} : tensor<16x128x16xi8> into tensor<16x4x32x16xi8>
// FOUR-NEXT:   [[D:%.*]] = tensor.expand_shape %d {{.*}} : tensor<16x128xf16> into tensor<16x4x32xf16>
// FOUR:        [[W:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], {{.*}} ins([[Q]], [[D]]
// FOUR:        linalg.index 3 : index
// FOUR:        [[E:%.*]] = tensor.empty(%m) : tensor<4x?x16xf32>
// FOUR:        [[P:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, ((((d0 * 1024) + (d3 * 32)) + (d4 * 16)) + d5))>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d2, d0, d3, d4, d5)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2)>], {{.*}} ins(%x, [[W]]
// FOUR:        linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (0, d0, d1)>, affine_map<(d0, d1) -> (1, d0, d1)>, affine_map<(d0, d1) -> (2, d0, d1)>, affine_map<(d0, d1) -> (3, d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins([[P]], [[P]], [[P]], [[P]]
// FOUR-COUNT-3: arith.addf
func.func @packed(%x: tensor<?x4096xf16>, %q: tensor<16x128x16xi8>, %d: tensor<16x128xf16>) -> tensor<?x16xf32> {
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  %m = tensor.dim %x, %first : tensor<?x4096xf16>
  %packed = tensor.empty() : tensor<16x128x2x16xf16>
  %w = linalg.generic {indexing_maps = [affine_map<(n, b, h, j) -> (n, b, j)>, affine_map<(n, b, h, j) -> (n, b)>, affine_map<(n, b, h, j) -> (n, b, h, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q, %d : tensor<16x128x16xi8>, tensor<16x128xf16>) outs(%packed : tensor<16x128x2x16xf16>) {
  ^bb0(%a: i8, %s: f16, %o: f16):
    %h = linalg.index 2 : index
    %h8 = arith.index_cast %h : index to i8
    %four = arith.constant 4 : i8
    %places = arith.muli %h8, %four : i8
    %moved = arith.shrui %a, %places : i8
    %mask = arith.constant 15 : i8
    %nibble = arith.andi %moved, %mask : i8
    %f = arith.uitofp %nibble : i8 to f16
    %p = arith.mulf %f, %s : f16
    linalg.yield %p : f16
  } -> tensor<16x128x2x16xf16>
  %empty = tensor.empty(%m) : tensor<?x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x16xf32>) -> tensor<?x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, b, h, j) -> (m, b * 32 + h * 16 + j)>, affine_map<(m, n, b, h, j) -> (n, b, h, j)>, affine_map<(m, n, b, h, j) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<?x4096xf16>, tensor<16x128x2x16xf16>) outs(%init : tensor<?x16xf32>) {
  ^bb0(%a: f16, %b: f16, %c: f32):
    %e = arith.extf %a : f16 to f32
    %f = arith.extf %b : f16 to f32
    %p = arith.mulf %e, %f : f32
    %s = arith.addf %p, %c : f32
    linalg.yield %s : f32
  } -> tensor<?x16xf32>
  func.return %y : tensor<?x16xf32>
}

// -----

// Multiply-adds in few workgroups are split for any M, together with an operand that is computed before.

// CHECK-LABEL: @scalars
// CHECK:       tensor.expand_shape %c {{.*}} into tensor<8x256x128xf32>
func.func @scalars(%a: tensor<?x64xf32>, %b: tensor<64x2048xf32>, %c: tensor<2048x128xf32>) -> tensor<?x128xf32> {
  %zero = arith.constant 0.0 : f32
  %i = arith.constant 0 : index
  %m = tensor.dim %a, %i : tensor<?x64xf32>
  %wide = tensor.empty(%m) : tensor<?x2048xf32>
  %empty = tensor.empty(%m) : tensor<?x128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%wide : tensor<?x2048xf32>) -> tensor<?x2048xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<?x64xf32>, tensor<64x2048xf32>) outs(%f : tensor<?x2048xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %u = arith.mulf %x, %y : f32
    %t = arith.addf %s, %u : f32
    linalg.yield %t : f32
  } -> tensor<?x2048xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<?x2048xf32>) outs(%wide : tensor<?x2048xf32>) {
  ^bb0(%x: f32, %o: f32):
    %u = math.exp %x : f32
    linalg.yield %u : f32
  } -> tensor<?x2048xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x128xf32>) -> tensor<?x128xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q, %c : tensor<?x2048xf32>, tensor<2048x128xf32>) outs(%init : tensor<?x128xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %u = arith.mulf %x, %y : f32
    %t = arith.addf %s, %u : f32
    linalg.yield %t : f32
  } -> tensor<?x128xf32>
  func.return %r : tensor<?x128xf32>
}
