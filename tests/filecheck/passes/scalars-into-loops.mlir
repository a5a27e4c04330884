// RUN: xdsl-opt %s -p 'scalars-into-loops' | filecheck %s

// A scalar that is extracted from a tensor, and arithmetic on it, move into the loops that use it.

// CHECK-LABEL: func.func @scaled
// CHECK-NEXT:    %two = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:    %{{.*}} = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:    %[[S:.*]] = tensor.collapse_shape %s [] : tensor<1xf32> into tensor<f32>
// CHECK-NEXT:    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %[[S]] : tensor<4xf32>, tensor<f32>)
// CHECK-NEXT:    ^bb0(%{{.*}}: f32, %[[A:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:      %[[H:.*]] = arith.mulf %[[A]], %two : f32
// CHECK-NEXT:      arith.mulf %{{.*}}, %[[H]] : f32
func.func @scaled(%x: tensor<4xf32>, %s: tensor<1xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %two = arith.constant 2.0 : f32
  %e = tensor.extract %s[%c0] : tensor<1xf32>
  %h = arith.mulf %e, %two : f32
  %empty = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %h : tensor<4xf32>, f32) outs(%empty : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// A fill with such a scalar becomes loops, too. If a scalar selects an element, the body reads this element.

// CHECK-LABEL: func.func @filled
// CHECK:         linalg.generic
// CHECK-SAME:      ins(%i : tensor<i64>)
// CHECK:           arith.index_cast %{{.*}} : i64 to index
// CHECK-NEXT:      %[[E:.*]] = tensor.extract %t[%{{.*}}] : tensor<8xf32>
// CHECK-NEXT:      linalg.yield %[[E]] : f32
// CHECK-NOT:     linalg.fill
func.func @filled(%t: tensor<8xf32>, %i: tensor<i64>) -> tensor<4xf32> {
  %n = tensor.extract %i[] : tensor<i64>
  %k = arith.index_cast %n : i64 to index
  %e = tensor.extract %t[%k] : tensor<8xf32>
  %empty = tensor.empty() : tensor<4xf32>
  %r = linalg.fill ins(%e : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// A value that is computed from sizes, here of a computed tensor, is computed where it is used.

// CHECK-LABEL: func.func @divided
// CHECK-SAME:      (%[[X:.*]]: tensor<?x8xf32>)
// CHECK:         linalg.generic
// CHECK:           %[[D:.*]] = tensor.dim %[[X]], %{{.*}} : tensor<?x8xf32>
// CHECK-NEXT:      %[[W:.*]] = arith.index_cast %[[D]] : index to i64
// CHECK-NEXT:      %[[N:.*]] = arith.sitofp %[[W]] : i64 to f32
// CHECK-NEXT:      arith.divf %{{.*}}, %[[N]] : f32
func.func @divided(%x: tensor<?x8xf32>) -> tensor<8x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x8xf32>
  %empty = tensor.empty(%m) : tensor<8x?xf32>
  %t = linalg.transpose ins(%x : tensor<?x8xf32>) outs(%empty : tensor<8x?xf32>) permutation = [1, 0]
  %size = tensor.dim %t, %c1 : tensor<8x?xf32>
  %wide = arith.index_cast %size : index to i64
  %n = arith.sitofp %wide : i64 to f32
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<8x?xf32>) outs(%empty : tensor<8x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.divf %a, %n : f32
    linalg.yield %q : f32
  } -> tensor<8x?xf32>
  func.return %r : tensor<8x?xf32>
}

// Constants do not move.

// CHECK-LABEL: func.func @constant
// CHECK:         linalg.fill ins(%one : f32)
func.func @constant() -> tensor<4xf32> {
  %one = arith.constant 1.0 : f32
  %empty = tensor.empty() : tensor<4xf32>
  %r = linalg.fill ins(%one : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// A padding by a computed scalar becomes a padding by zeros, then a selection by position.

// CHECK-LABEL: func.func @padded
// CHECK:         %[[P:.*]] = tensor.pad %x low[1, 0] high[2, 0]
// CHECK:         linalg.generic
// CHECK-SAME:      ins(%[[P]], %z : tensor<7x3xi8>, tensor<i8>)
// CHECK:           %[[I:.*]] = linalg.index 0 : index
// CHECK:           arith.cmpi sge, %[[I]]
// CHECK:           arith.cmpi slt, %[[I]]
// CHECK:           arith.select
// CHECK-NOT:     tensor.extract
func.func @padded(%x: tensor<4x3xi8>, %z: tensor<i8>) -> tensor<7x3xi8> {
  %s = tensor.extract %z[] : tensor<i8>
  %r = tensor.pad %x low[1, 0] high[2, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %s : i8
  } : tensor<4x3xi8> to tensor<7x3xi8>
  func.return %r : tensor<7x3xi8>
}

// The result keeps its dynamic type, also if the size is constant.

// CHECK-LABEL: func.func @filled_from_one
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?xf32>)
func.func @filled_from_one(%x: tensor<1xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %e = tensor.empty(%c4) : tensor<?xf32>
  %s = tensor.extract %x[%c0] : tensor<1xf32>
  %z = linalg.fill ins(%s : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  func.return %z : tensor<?xf32>
}
