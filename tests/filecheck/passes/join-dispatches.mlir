// RUN: xdsl-opt %s -p 'form-dispatches,update-states,join-dispatches' --split-input-file | filecheck %s

// A rotation and an insertion into a state do not depend on each other,
// so they are one launch. A reshape of the first result comes after it.

// CHECK-LABEL: func.func @token
// CHECK: %[[ALL:.*]], %{{.*}} = schedule.dispatch(%x, %k, %past) attributes {schedule.updates = array<i64: -1, 1>}
// CHECK-COUNT-1: tensor.insert_slice
// CHECK: tensor.collapse_shape %[[ALL]]
// CHECK-NOT: schedule.dispatch
func.func @token(%x: tensor<1x4xf32>, %past: index, %k: tensor<8x4xf32> {program.state = 1 : i64, program.value = dense<0.0> : tensor<8x4xf32>}) -> (tensor<4xf32>, tensor<8x4xf32>) {
  %e = tensor.empty() : tensor<1x4xf32>
  %q = linalg.exp ins(%x : tensor<1x4xf32>) outs(%e : tensor<1x4xf32>) -> tensor<1x4xf32>
  %r = tensor.collapse_shape %q [[0, 1]] : tensor<1x4xf32> into tensor<4xf32>
  %k1 = tensor.insert_slice %x into %k[%past, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
  func.return %r, %k1 : tensor<4xf32>, tensor<8x4xf32>
}

// -----

// One dispatch needs the result of the other, so they are not joined.

// CHECK-LABEL: func.func @chain
// CHECK-COUNT-2: schedule.dispatch
func.func @chain(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %b = linalg.exp ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// The second dispatch writes memory that the first one reads, so the first one must be complete.

// CHECK-LABEL: func.func @reads_what_is_written
// CHECK: schedule.dispatch(%k) :
// CHECK: schedule.dispatch(%x, %k) attributes {schedule.updates = array<i64: 1>}
func.func @reads_what_is_written(%x: tensor<1x4xf32>, %k: tensor<8x4xf32> {program.state = 1 : i64, program.value = dense<0.0> : tensor<8x4xf32>}) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %e = tensor.empty() : tensor<8x4xf32>
  %a = linalg.exp ins(%k : tensor<8x4xf32>) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  %k1 = tensor.insert_slice %x into %k[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
  func.return %a, %k1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// A reader of the first result moves behind both, unless the second dispatch writes what it reads.

// CHECK-LABEL: func.func @needing
// CHECK: %[[E:.*]], %{{.*}} = schedule.dispatch(%x, %k) attributes {schedule.updates = array<i64: -1, 1>}
// CHECK: schedule.dispatch(%[[E]], %h)
// CHECK-LABEL: func.func @needing_the_old
// CHECK-COUNT-3: = schedule.dispatch
func.func @needing(%x: tensor<1x4xf32>, %h: tensor<1x4xf32>, %k: tensor<8x4xf32> {program.state = 2 : i64, program.value = dense<0.0> : tensor<8x4xf32>}) -> (tensor<1xf32>, tensor<1x4xf32>, tensor<8x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4xf32>
  %a = linalg.exp ins(%x : tensor<1x4xf32>) outs(%e : tensor<1x4xf32>) -> tensor<1x4xf32>
  %i = tensor.empty() : tensor<1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%i : tensor<1xf32>) -> tensor<1xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%a, %h : tensor<1x4xf32>, tensor<1x4xf32>) outs(%f : tensor<1xf32>) {
  ^bb0(%p: f32, %q: f32, %t: f32):
    %m = arith.mulf %p, %q : f32
    %u = arith.addf %t, %m : f32
    linalg.yield %u : f32
  } -> tensor<1xf32>
  %k1 = tensor.insert_slice %x into %k[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
  func.return %s, %a, %k1 : tensor<1xf32>, tensor<1x4xf32>, tensor<8x4xf32>
}
func.func @needing_the_old(%x: tensor<4x8xf32>, %y: tensor<1x4xf32>, %k: tensor<8x4xf32> {program.state = 1 : i64, program.value = dense<0.0> : tensor<8x4xf32>}) -> (tensor<4x4xf32>, tensor<8x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %a = linalg.exp ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = linalg.exp ins(%a : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = tensor.empty() : tensor<4x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%i : tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = linalg.matmul ins(%b, %k : tensor<4x8xf32>, tensor<8x4xf32>) outs(%f : tensor<4x4xf32>) -> tensor<4x4xf32>
  %k1 = tensor.insert_slice %y into %k[0, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
  func.return %s, %k1 : tensor<4x4xf32>, tensor<8x4xf32>
}

// -----

// A small sum is joined with other small dispatches. Large sums and results fill a device alone.

// CHECK-LABEL: func.func @apart
// CHECK-COUNT-3: = schedule.dispatch
// CHECK-NOT: = schedule.dispatch
func.func @apart(%x: tensor<64x64xf32>, %y: tensor<256x256xf32>) -> (tensor<64xf32>, tensor<64x64xf32>, tensor<256x256xf32>, tensor<256xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.reduce ins(%x : tensor<64x64xf32>) outs(%f : tensor<64xf32>) dimensions = [1]
    (%a: f32, %b: f32) {
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
    }
  %g = tensor.empty() : tensor<64x64xf32>
  %t = linalg.exp ins(%x : tensor<64x64xf32>) outs(%g : tensor<64x64xf32>) -> tensor<64x64xf32>
  %h = tensor.empty() : tensor<256x256xf32>
  %u = linalg.exp ins(%y : tensor<256x256xf32>) outs(%h : tensor<256x256xf32>) -> tensor<256x256xf32>
  %i = tensor.empty() : tensor<256xf32>
  %j = linalg.fill ins(%zero : f32) outs(%i : tensor<256xf32>) -> tensor<256xf32>
  %v = linalg.reduce ins(%y : tensor<256x256xf32>) outs(%j : tensor<256xf32>) dimensions = [1]
    (%a: f32, %b: f32) {
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
    }
  func.return %s, %t, %u, %v : tensor<64xf32>, tensor<64x64xf32>, tensor<256x256xf32>, tensor<256xf32>
}

// -----

// A contraction with one product per result has a schedule of its own, like other contractions.

// CHECK-LABEL: func.func @outer
// CHECK-COUNT-2: = schedule.dispatch
func.func @outer(%x: tensor<8x1xf32>, %y: tensor<1x8xf32>) -> (tensor<8x8xf32>, tensor<1x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = linalg.matmul ins(%x, %y : tensor<8x1xf32>, tensor<1x8xf32>) outs(%f : tensor<8x8xf32>) -> tensor<8x8xf32>
  %g = tensor.empty() : tensor<1x8xf32>
  %q = linalg.exp ins(%y : tensor<1x8xf32>) outs(%g : tensor<1x8xf32>) -> tensor<1x8xf32>
  func.return %p, %q : tensor<8x8xf32>, tensor<1x8xf32>
}

// -----

// Large dispatches that read parts of one result are one launch, because they all wait for it.

// CHECK-LABEL: func.func @parts
// CHECK: [[P:%.*]] = schedule.dispatch(%x) : (tensor<512x512xf32>) -> tensor<512xf32>
// CHECK: schedule.dispatch([[P]]) : (tensor<512xf32>) -> (tensor<512x256xf32>, tensor<512x128xf16>)
// CHECK-NOT: schedule.dispatch
func.func @parts(%x: tensor<512x512xf32>) -> (tensor<512x256xf32>, tensor<512x128xf16>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<512xf32>) -> tensor<512xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<512x512xf32>) outs(%i : tensor<512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<512xf32>
  %f = tensor.empty() : tensor<512x256xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<512xf32>) outs(%f : tensor<512x256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<512x256xf32>
  %g = tensor.empty() : tensor<512x128xf16>
  %k = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<512xf32>) outs(%g : tensor<512x128xf16>) {
  ^bb0(%a: f32, %o: f16):
    %0 = arith.truncf %a : f32 to f16
    linalg.yield %0 : f16
  } -> tensor<512x128xf16>
  func.return %q, %k : tensor<512x256xf32>, tensor<512x128xf16>
}

// -----

// Readers of parts of one result with vectors of different widths are joined if they have few elements.

// CHECK-LABEL: func.func @few_by_other_widths
// CHECK: [[P:%.*]] = schedule.dispatch(%x)
// CHECK: schedule.dispatch([[P]]) : (tensor<512x67xf32>) -> (tensor<512x64xf32>, tensor<512x3xf32>)
// CHECK-LABEL: func.func @many_by_other_widths
// CHECK-COUNT-3: = schedule.dispatch
func.func @few_by_other_widths(%x: tensor<512x67xf32>) -> (tensor<512x64xf32>, tensor<512x3xf32>) {
  %e = tensor.empty() : tensor<512x67xf32>
  %p = linalg.exp ins(%x : tensor<512x67xf32>) outs(%e : tensor<512x67xf32>) -> tensor<512x67xf32>
  %s = tensor.extract_slice %p[0, 0] [512, 64] [1, 1] : tensor<512x67xf32> to tensor<512x64xf32>
  %t = tensor.extract_slice %p[0, 64] [512, 3] [1, 1] : tensor<512x67xf32> to tensor<512x3xf32>
  %f = tensor.empty() : tensor<512x64xf32>
  %g = tensor.empty() : tensor<512x3xf32>
  %a = linalg.sqrt ins(%s : tensor<512x64xf32>) outs(%f : tensor<512x64xf32>) -> tensor<512x64xf32>
  %b = linalg.sqrt ins(%t : tensor<512x3xf32>) outs(%g : tensor<512x3xf32>) -> tensor<512x3xf32>
  func.return %a, %b : tensor<512x64xf32>, tensor<512x3xf32>
}
func.func @many_by_other_widths(%x: tensor<4096x67xf32>) -> (tensor<4096x64xf32>, tensor<4096x3xf32>) {
  %e = tensor.empty() : tensor<4096x67xf32>
  %p = linalg.exp ins(%x : tensor<4096x67xf32>) outs(%e : tensor<4096x67xf32>) -> tensor<4096x67xf32>
  %s = tensor.extract_slice %p[0, 0] [4096, 64] [1, 1] : tensor<4096x67xf32> to tensor<4096x64xf32>
  %t = tensor.extract_slice %p[0, 64] [4096, 3] [1, 1] : tensor<4096x67xf32> to tensor<4096x3xf32>
  %f = tensor.empty() : tensor<4096x64xf32>
  %g = tensor.empty() : tensor<4096x3xf32>
  %a = linalg.sqrt ins(%s : tensor<4096x64xf32>) outs(%f : tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %b = linalg.sqrt ins(%t : tensor<4096x3xf32>) outs(%g : tensor<4096x3xf32>) -> tensor<4096x3xf32>
  func.return %a, %b : tensor<4096x64xf32>, tensor<4096x3xf32>
}

// -----

// Readers of arguments are not joined, nor a reader that transposes its part through Workgroup memory.

// CHECK-LABEL: func.func @given
// CHECK-COUNT-2: = schedule.dispatch(%x)
// CHECK-LABEL: func.func @turned
// CHECK-COUNT-3: = schedule.dispatch
func.func @given(%x: tensor<512x128xf32>) -> (tensor<512x128xf32>, tensor<512x128xf32>) {
  %e = tensor.empty() : tensor<512x128xf32>
  %a = linalg.exp ins(%x : tensor<512x128xf32>) outs(%e : tensor<512x128xf32>) -> tensor<512x128xf32>
  %b = linalg.sqrt ins(%x : tensor<512x128xf32>) outs(%e : tensor<512x128xf32>) -> tensor<512x128xf32>
  func.return %a, %b : tensor<512x128xf32>, tensor<512x128xf32>
}
func.func @turned(%x: tensor<512x128xf32>) -> (tensor<512x128xf32>, tensor<128x512xf32>) {
  %e = tensor.empty() : tensor<512x128xf32>
  %f = tensor.empty() : tensor<128x512xf32>
  %p = linalg.exp ins(%x : tensor<512x128xf32>) outs(%e : tensor<512x128xf32>) -> tensor<512x128xf32>
  %a = linalg.sqrt ins(%p : tensor<512x128xf32>) outs(%e : tensor<512x128xf32>) -> tensor<512x128xf32>
  %b = linalg.transpose ins(%p : tensor<512x128xf32>) outs(%f : tensor<128x512xf32>) permutation = [1, 0]
  func.return %a, %b : tensor<512x128xf32>, tensor<128x512xf32>
}

// -----

// Sums of rows of equal length are joined, as for the norms of heads of queries
// and keys. Rows of another length, and sums that a product reads, are not joined.

// CHECK-LABEL: func.func @norms
// CHECK: schedule.dispatch(%q, %k)
// CHECK: schedule.dispatch(%y)
// CHECK: %[[S:.*]] = schedule.dispatch(%z)
// CHECK: schedule.dispatch(%[[S]], %w)
func.func @norms(%q: tensor<8x16xf32>, %k: tensor<2x16xf32>, %y: tensor<4x32xf32>, %z: tensor<4x16x16xf32>, %w: tensor<16x8xf32>) -> (tensor<8xf32>, tensor<2xf32>, tensor<4xf32>, tensor<4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e8 = tensor.empty() : tensor<8xf32>
  %f8 = linalg.fill ins(%zero : f32) outs(%e8 : tensor<8xf32>) -> tensor<8xf32>
  %a = linalg.reduce ins(%q : tensor<8x16xf32>) outs(%f8 : tensor<8xf32>) dimensions = [1]
    (%i: f32, %t: f32) {
      %c = arith.addf %i, %t : f32
      linalg.yield %c : f32
    }
  %e2 = tensor.empty() : tensor<2xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2xf32>) -> tensor<2xf32>
  %b = linalg.reduce ins(%k : tensor<2x16xf32>) outs(%f2 : tensor<2xf32>) dimensions = [1]
    (%i: f32, %t: f32) {
      %c = arith.addf %i, %t : f32
      linalg.yield %c : f32
    }
  %e4 = tensor.empty() : tensor<4xf32>
  %f4 = linalg.fill ins(%zero : f32) outs(%e4 : tensor<4xf32>) -> tensor<4xf32>
  %d = linalg.reduce ins(%y : tensor<4x32xf32>) outs(%f4 : tensor<4xf32>) dimensions = [1]
    (%i: f32, %t: f32) {
      %c = arith.addf %i, %t : f32
      linalg.yield %c : f32
    }
  %e16 = tensor.empty() : tensor<4x16xf32>
  %f16 = linalg.fill ins(%zero : f32) outs(%e16 : tensor<4x16xf32>) -> tensor<4x16xf32>
  %s = linalg.reduce ins(%z : tensor<4x16x16xf32>) outs(%f16 : tensor<4x16xf32>) dimensions = [2]
    (%i: f32, %t: f32) {
      %c = arith.addf %i, %t : f32
      linalg.yield %c : f32
    }
  %er = tensor.empty() : tensor<4x8xf32>
  %fr = linalg.fill ins(%zero : f32) outs(%er : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.matmul ins(%s, %w : tensor<4x16xf32>, tensor<16x8xf32>) outs(%fr : tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %a, %b, %d, %r : tensor<8xf32>, tensor<2xf32>, tensor<4xf32>, tensor<4x8xf32>
}

// -----

// The inserted value is computed in the state, and is stored separately only for another reader.

// CHECK-LABEL: func.func @inserts
// CHECK: %[[A:.*]], %{{.*}} = schedule.dispatch(%x, %k, %past) attributes {schedule.updates = array<i64: -1, 1>}
// CHECK: math.exp
// CHECK: %[[V:.*]] = tensor.expand_shape
// CHECK: tensor.insert_slice %[[V]] into
// CHECK-NOT: schedule.dispatch
func.func @inserts(%x: tensor<4xf32>, %past: index, %k: tensor<8x4xf32> {program.state = 1 : i64, program.value = dense<0.0> : tensor<8x4xf32>}) -> (tensor<4xf32>, tensor<8x4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %r = tensor.expand_shape %a [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
  %k1 = tensor.insert_slice %r into %k[%past, 0] [1, 4] [1, 1] : tensor<1x4xf32> into tensor<8x4xf32>
  func.return %a, %k1 : tensor<4xf32>, tensor<8x4xf32>
}
