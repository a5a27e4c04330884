// RUN: XDSL_ROUNDTRIP
// linalg.matmul of mixed precision and of transposed operands, in both syntaxes.

func.func @mixed(%a: tensor<4x8xf16>, %b: tensor<8x6xf16>, %c: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK: linalg.matmul ins(%a, %b : tensor<4x8xf16>, tensor<8x6xf16>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf16>, tensor<8x6xf16>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// The operands are square, so that only the maps distinguish the products.
func.func @transposed(%a: tensor<8x8xf16>, %b: tensor<8x8xf16>, %c: tensor<8x8xf16>) -> tensor<8x8xf16> {
  // CHECK: linalg.matmul indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>] {note = "kept"} ins(%a, %b : tensor<8x8xf16>, tensor<8x8xf16>) outs(%c : tensor<8x8xf16>) -> tensor<8x8xf16>
  %0 = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>] {note = "kept"} ins(%a, %b : tensor<8x8xf16>, tensor<8x8xf16>) outs(%c : tensor<8x8xf16>) -> tensor<8x8xf16>
  return %0 : tensor<8x8xf16>
}

func.func @integers(%a: memref<4x8xi8>, %b: memref<8x6xi8>, %c: memref<4x6xi32>) {
  // CHECK: linalg.matmul ins(%a, %b : memref<4x8xi8>, memref<8x6xi8>) outs(%c : memref<4x6xi32>)
  linalg.matmul ins(%a, %b : memref<4x8xi8>, memref<8x6xi8>) outs(%c : memref<4x6xi32>)
  return
}
