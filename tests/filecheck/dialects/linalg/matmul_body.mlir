// RUN: xdsl-opt %s -p linalg-generalize-named-ops | filecheck %s
// RUN: MLIR_GENERIC_ROUNDTRIP --check-prefix=MLIR
// REQUIRES: mlir-opt
// The hidden body extends its inputs like MLIR's. The sum has xDSL's order of operands.

func.func @mixed(%a: tensor<4x8xf16>, %b: tensor<8x6xf16>, %c: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK:      ^bb0([[A:%.*]]: f16, [[B:%.*]]: f16, [[C:%.*]]: f32):
  // CHECK-NEXT:   [[AX:%.*]] = arith.extf [[A]] : f16 to f32
  // CHECK-NEXT:   [[BX:%.*]] = arith.extf [[B]] : f16 to f32
  // CHECK-NEXT:   [[P:%.*]] = arith.mulf [[AX]], [[BX]] : f32
  // CHECK-NEXT:   [[S:%.*]] = arith.addf [[P]], [[C]] : f32
  // CHECK-NEXT:   linalg.yield [[S]] : f32
  // MLIR: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<4x8xf16>, tensor<8x6xf16>) outs(%{{.*}} : tensor<4x6xf32>) -> tensor<4x6xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf16>, tensor<8x6xf16>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

func.func @integers(%a: tensor<4x8xi8>, %b: tensor<8x6xi8>, %c: tensor<4x6xi32>) -> tensor<4x6xi32> {
  // CHECK:   arith.extsi %{{.*}} : i8 to i32
  // CHECK:   arith.muli
  // CHECK:   arith.addi
  // MLIR: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<4x8xi8>, tensor<8x6xi8>)
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xi8>, tensor<8x6xi8>) outs(%c : tensor<4x6xi32>) -> tensor<4x6xi32>
  return %0 : tensor<4x6xi32>
}
