// RUN: XDSL_ROUNDTRIP
// RUN: MLIR_ROUNDTRIP
// The elementwise operations, softmax, pack and unpack, as MLIR 22 writes them.

func.func @elementwise(%x: tensor<8xf32>, %y: tensor<8xf32>, %e: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: linalg.abs ins(%{{.*}} : tensor<8xf32>) outs(%{{.*}} : tensor<8xf32>) -> tensor<8xf32>
  %0 = linalg.abs ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  // CHECK: linalg.div ins(%{{.*}}, %{{.*}} : tensor<8xf32>, tensor<8xf32>)
  %1 = linalg.div ins(%0, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  // CHECK: linalg.elementwise kind=#linalg.elementwise_kind<max_signed> ins(
  %2 = linalg.elementwise kind=#linalg.elementwise_kind<max_signed> ins(%1, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  // CHECK: linalg.map { math.exp } ins(
  %3 = linalg.map { math.exp } ins(%2 : tensor<8xf32>) outs(%e : tensor<8xf32>)
  // CHECK: linalg.map ins({{.*}}) outs({{.*}})
  // CHECK: arith.addf
  // CHECK: arith.mulf
  %4 = linalg.map ins(%3, %x : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) (%a: f32, %b: f32, %o: f32) {
    %s = arith.addf %a, %b : f32
    %p = arith.mulf %s, %b : f32
    linalg.yield %p : f32
  }
  return %4 : tensor<8xf32>
}

func.func @transposed(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>, %e: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: linalg.elementwise kind=#linalg.elementwise_kind<add> indexing_maps = [
  %0 = linalg.elementwise kind=#linalg.elementwise_kind<add> indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>] ins(%x, %y : tensor<4x8xf32>, tensor<8x4xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: linalg.softmax dimension(1) ins(%{{.*}} : tensor<4x8xf32>) outs(%{{.*}} : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = linalg.softmax dimension(1) ins(%0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

func.func @packed(%x: tensor<7x?xf32>, %d: f32, %n: index, %p: tensor<?x2x4x?xf32>, %e: tensor<7x?xf32>) -> tensor<7x?xf32> {
  // CHECK: linalg.pack %{{.*}} padding_value(%{{.*}} : f32) outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [4, %{{.*}}] into %{{.*}} : tensor<7x?xf32> -> tensor<?x2x4x?xf32>
  %0 = linalg.pack %x padding_value(%d : f32) outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [4, %n] into %p : tensor<7x?xf32> -> tensor<?x2x4x?xf32>
  // CHECK: linalg.unpack %{{.*}} outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [4, %{{.*}}] into %{{.*}} : tensor<?x2x4x?xf32> -> tensor<7x?xf32>
  %1 = linalg.unpack %0 outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [4, %n] into %e : tensor<?x2x4x?xf32> -> tensor<7x?xf32>
  return %1 : tensor<7x?xf32>
}
