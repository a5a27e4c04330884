// RUN: xdsl-opt %s -p 'narrow-to-32-bits' --split-input-file | filecheck %s

// An index has as many values as its loop has iterations, so sums and tensors of indices fit 32 bits.

// CHECK-LABEL: func.func @indices
// CHECK:         %[[C:.*]] = arith.constant 7 : i32
// CHECK:         tensor.empty() : tensor<80xi32>
// CHECK:       ^bb0(%{{.*}}: i32):
// CHECK-NEXT:    %[[I:.*]] = linalg.index 0 : index
// CHECK-NEXT:    %[[N:.*]] = arith.index_cast %[[I]] : index to i32
// CHECK-NEXT:    %[[S:.*]] = arith.addi %[[N]], %[[C]] : i32
// CHECK-NEXT:    linalg.yield %[[S]] : i32
// CHECK:       ^bb0(%[[X:.*]]: i32, %{{.*}}: f32):
// CHECK-NEXT:    arith.sitofp %[[X]] : i32 to f32
func.func @indices() -> tensor<80xf32> {
  %c = arith.constant 7 : i64
  %e = tensor.empty() : tensor<80xi64>
  %f = tensor.empty() : tensor<80xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%e : tensor<80xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %w = arith.index_cast %i : index to i64
    %s = arith.addi %w, %c : i64
    linalg.yield %s : i64
  } -> tensor<80xi64>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%n : tensor<80xi64>) outs(%f : tensor<80xf32>) {
  ^bb0(%x: i64, %o: f32):
    %y = arith.sitofp %x : i64 to f32
    linalg.yield %y : f32
  } -> tensor<80xf32>
  func.return %r : tensor<80xf32>
}

// -----

// Any i64 plus one may be any i64. A number that is known to be small plus one is small.

// CHECK-LABEL: func.func @kept
// CHECK:         arith.addi %{{.*}}, %{{.*}} : i64
// CHECK-LABEL: func.func @declared
// CHECK:         %[[T:.*]] = arith.trunci %{{.*}} : i64 to i32
// CHECK-NEXT:    %[[S:.*]] = arith.addi %[[T]], %{{.*}} : i32
// CHECK-NEXT:    arith.sitofp %[[S]] : i32 to f32
func.func @kept(%a: tensor<4xi64>) -> tensor<4xf32> {
  %c = arith.constant 1 : i64
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xi64>) outs(%e : tensor<4xf32>) {
  ^bb0(%x: i64, %o: f32):
    %s = arith.addi %x, %c : i64
    %y = arith.sitofp %s : i64 to f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
func.func @declared(%a: tensor<4xi64> {program.range = [-5, 100]}) -> tensor<4xf32> {
  %c = arith.constant 1 : i64
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xi64>) outs(%e : tensor<4xf32>) {
  ^bb0(%x: i64, %o: f32):
    %s = arith.addi %x, %c : i64
    %y = arith.sitofp %s : i64 to f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

// An index that may count from the end and addresses a tensor is in [-10, 9].

// CHECK-LABEL: func.func @gathered
// CHECK:         %[[T:.*]] = arith.trunci %{{.*}} : i64 to i32
// CHECK-NEXT:    %[[C:.*]] = arith.cmpi slt, %[[T]], %{{.*}} : i32
// CHECK-NEXT:    %[[A:.*]] = arith.addi %[[T]], %{{.*}} : i32
// CHECK-NEXT:    %[[S:.*]] = arith.select %[[C]], %[[A]], %[[T]] : i32
// CHECK-NEXT:    arith.index_cast %[[S]] : i32 to index
func.func @gathered(%a: tensor<4xi64>, %t: tensor<10xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0 : i64
  %ten = arith.constant 10 : i64
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xi64>) outs(%e : tensor<4xf32>) {
  ^bb0(%x: i64, %o: f32):
    %c = arith.cmpi slt, %x, %zero : i64
    %s = arith.addi %x, %ten : i64
    %n = arith.select %c, %s, %x : i64
    %i = arith.index_cast %n : i64 to index
    %y = tensor.extract %t[%i] : tensor<10xf32>
    linalg.yield %y : f32
  } -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

// A product of two f32 in f64, rounded to f32, equals the product in f32. A sum of three numbers may differ.

// CHECK-LABEL: func.func @exact
// CHECK:         arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-LABEL: func.func @rounds_twice
// CHECK:         arith.addf %{{.*}}, %{{.*}} : f64
// CHECK:         arith.addf %{{.*}}, %{{.*}} : f64
// CHECK-LABEL: func.func @meant
// CHECK-NOT:     f64 
// CHECK:         func.return
func.func @exact(%a: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant 0.25 : f64
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%x: f32, %o: f32):
    %w = arith.extf %x : f32 to f64
    %p = arith.mulf %w, %c : f64
    %y = arith.truncf %p : f64 to f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
func.func @rounds_twice(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%x: f32, %z: f32, %o: f32):
    %v = arith.extf %x : f32 to f64
    %w = arith.extf %z : f32 to f64
    %p = arith.addf %v, %w : f64
    %q = arith.addf %p, %w : f64
    %y = arith.truncf %q : f64 to f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
func.func @meant(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> attributes {program.floats = "f32"} {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%x: f32, %z: f32, %o: f32):
    %v = arith.extf %x : f32 to f64
    %w = arith.extf %z : f32 to f64
    %p = arith.addf %v, %w : f64
    %q = arith.addf %p, %w : f64
    %y = arith.truncf %q : f64 to f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
