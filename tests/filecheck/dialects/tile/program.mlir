// RUN: XDSL_ROUNDTRIP
tile.program @matmul {
^bb0(%a: !tile.view<?x?xf16>, %b: !tile.view<?x?xf16>, %bias: !tile.view<?xf32>, %c: !tile.view<?x?xf16>):
  // CHECK: tile.place %{{.*}} tile [32, 32] axes [0, 1] : !tile.view<?x?xf16> -> index, index
  %i, %j = tile.place %c tile [32, 32] axes [0, 1] : !tile.view<?x?xf16> -> index, index
  %zero = arith.constant 0.0 : f32
  %z = tile.full %zero : f32 -> !tile.tile<32x32xf32>
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %k = tile.size %a 1 : !tile.view<?x?xf16>
  %sum = scf.for %at = %c0 to %k step %c16 iter_args(%acc = %z) -> (!tile.tile<32x32xf32>) {
    %x = tile.load %a[%i, %at] outside 0.0 : f16 : !tile.view<?x?xf16> -> !tile.tile<32x16xf16>
    %y = tile.load %b[%at, %j] outside 0.0 : f16 : !tile.view<?x?xf16> -> !tile.tile<16x32xf16>
    // CHECK: tile.mma %{{.*}}, %{{.*}}, %{{.*}} : !tile.tile<32x16xf16>, !tile.tile<16x32xf16>, !tile.tile<32x32xf32>
    %s = tile.mma %x, %y, %acc : !tile.tile<32x16xf16>, !tile.tile<16x32xf16>, !tile.tile<32x32xf32> -> !tile.tile<32x32xf32>
    scf.yield %s : !tile.tile<32x32xf32>
  }
  %w = tile.load %bias[%j] outside 0.0 : f32 : !tile.view<?xf32> -> !tile.tile<32xf32>
  %w1 = tile.reshape %w : !tile.tile<32xf32> -> !tile.tile<1x32xf32>
  %w2 = tile.broadcast %w1 : !tile.tile<1x32xf32> -> !tile.tile<32x32xf32>
  %o = tile.map(%sum, %w2) : (!tile.tile<32x32xf32>, !tile.tile<32x32xf32>) -> !tile.tile<32x32xf16> {
  ^bb1(%p: f32, %q: f32):
    %t = arith.addf %p, %q : f32
    %r = arith.maximumf %t, %zero : f32
    %h = arith.truncf %r : f32 to f16
    tile.yield %h : f16
  }
  // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] clipped : !tile.tile<32x32xf16>, !tile.view<?x?xf16>
  tile.store %o, %c[%i, %j] clipped : !tile.tile<32x32xf16>, !tile.view<?x?xf16>
}

tile.program @softmax {
^bb0(%x: !tile.view<?x64xf32>, %flat: !tile.view<?xf32>):
  %i = tile.program_id 0
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %size = tile.size %x 0 : !tile.view<?x64xf32>
  // CHECK: tile.view_of %{{.*}}[%{{.*}}] sizes[%{{.*}}, %{{.*}}] strides[%{{.*}}, %{{.*}}] : !tile.view<?xf32> -> !tile.view<?x?xf32>
  %v = tile.view_of %flat[%zero] sizes [%size, %size] strides [%size, %one] : !tile.view<?xf32> -> !tile.view<?x?xf32>
  %t = tile.load %v[%i, %zero] any : !tile.view<?x?xf32> -> !tile.tile<4x64xf32>
  // CHECK: tile.reduce(%{{.*}}) axis 1 : (!tile.tile<4x64xf32>) -> !tile.tile<4xf32> {
  %m = tile.reduce(%t) axis 1 : (!tile.tile<4x64xf32>) -> !tile.tile<4xf32> {
  ^bb1(%a: f32, %b: f32):
    %c = arith.maxnumf %a, %b : f32
    tile.yield %c : f32
  }
  %r = tile.range : !tile.tile<4xi32>
  %g = tile.gather %flat[%r] : !tile.view<?xf32>, !tile.tile<4xi32> -> !tile.tile<4xf32>
  %u = tile.transpose %t : !tile.tile<4x64xf32> -> !tile.tile<64x4xf32>
  // CHECK: tile.scatter %{{.*}}, %{{.*}}[%{{.*}}] : !tile.tile<4xf32>, !tile.view<?xf32>, !tile.tile<4xi32>
  tile.scatter %m, %flat[%r] : !tile.tile<4xf32>, !tile.view<?xf32>, !tile.tile<4xi32>
}

tile.program @updates {
^bb0(%x: !tile.view<?xi32>, %y: !tile.view<?xf32>):
  %r = tile.range : !tile.tile<8xi32>
  // CHECK: tile.scan(%{{.*}}) axis 0 reverse : (!tile.tile<8xi32>) -> !tile.tile<8xi32> {
  %s = tile.scan(%r) axis 0 reverse : (!tile.tile<8xi32>) -> !tile.tile<8xi32> {
  ^bb1(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    tile.yield %c : i32
  }
  %true = arith.constant true
  %m = tile.full %true : i1 -> !tile.tile<8xi1>
  // CHECK: tile.atomic maxs %{{.*}}, %{{.*}}[%{{.*}}] mask %{{.*}} : !tile.tile<8xi1> : !tile.tile<8xi32>, !tile.view<?xi32>, !tile.tile<8xi32> -> !tile.tile<8xi32>
  %old = tile.atomic maxs %s, %x[%r] mask %m : !tile.tile<8xi1> : !tile.tile<8xi32>, !tile.view<?xi32>, !tile.tile<8xi32> -> !tile.tile<8xi32>
  // CHECK: tile.barrier
  tile.barrier
}
