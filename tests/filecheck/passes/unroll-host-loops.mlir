// RUN: xdsl-opt %s -p 'unroll-host-loops' | filecheck %s
// RUN: xdsl-opt %s -p 'unroll-host-loops{limit=10}' | filecheck %s --check-prefix LIMIT

// The iterations follow each other. Loop-invariant operations are hoisted before them.

// CHECK-LABEL: func.func @steps
// CHECK-NOT: scf.for
// CHECK: linalg.exp
// CHECK-COUNT-3: linalg.add
// CHECK-NOT: linalg.add
// CHECK: func.return
// LIMIT-LABEL: func.func @steps
// LIMIT: linalg.exp
// LIMIT: scf.for
func.func @steps(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %3 = arith.constant 3 : index
  %e = tensor.empty() : tensor<4xf32>
  %r = scf.for %i = %0 to %3 step %1 iter_args(%s = %a) -> (tensor<4xf32>) {
    %x = linalg.exp ins(%b : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %n = linalg.add ins(%s, %x : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %n : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// Nested loops are unrolled from the inside: 2 * 2 additions.

// CHECK-LABEL: func.func @nested
// CHECK-COUNT-4: linalg.add
// CHECK-NOT: linalg.add
// CHECK: func.return
func.func @nested(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %e = tensor.empty() : tensor<4xf32>
  %r = scf.for %i = %0 to %2 step %1 iter_args(%s = %a) -> (tensor<4xf32>) {
    %q = scf.for %j = %0 to %2 step %1 iter_args(%t = %s) -> (tensor<4xf32>) {
      %n = linalg.add ins(%t, %t : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
      scf.yield %n : tensor<4xf32>
    }
    scf.yield %q : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// A branch on a constant becomes the chosen side. Any other branch becomes both sides and a selection.

// CHECK-LABEL: func.func @branches
// CHECK-NEXT: arith.constant false
// CHECK-NOT: scf.if
// CHECK: linalg.exp ins(%a
// CHECK: linalg.generic {{.*}} ins(%c, %{{.*}}, %b : i1, tensor<4xf32>, tensor<4xf32>)
// CHECK: arith.select
// CHECK: func.return %{{.*}}, %b
func.func @branches(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: i1) -> (tensor<4xf32>, tensor<4xf32>) {
  %no = arith.constant false
  %r = scf.if %no -> (tensor<4xf32>) {
    scf.yield %a : tensor<4xf32>
  } else {
    scf.yield %b : tensor<4xf32>
  }
  %e = tensor.empty() : tensor<4xf32>
  %s = scf.if %c -> (tensor<4xf32>) {
    %x = linalg.exp ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %x : tensor<4xf32>
  } else {
    scf.yield %b : tensor<4xf32>
  }
  func.return %s, %r : tensor<4xf32>, tensor<4xf32>
}

// A branch inside of a loop is decided after the loop is unrolled.

// CHECK-LABEL: func.func @first_only
// CHECK-NOT: scf.if
// CHECK-COUNT-1: linalg.exp
// CHECK-NOT: linalg.exp
// CHECK: func.return
func.func @first_only(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %3 = arith.constant 3 : index
  %e = tensor.empty() : tensor<4xf32>
  %r = scf.for %i = %0 to %3 step %1 iter_args(%s = %a) -> (tensor<4xf32>) {
    %c = arith.cmpi slt, %i, %1 : index
    %n = scf.if %c -> (tensor<4xf32>) {
      %x = linalg.exp ins(%s : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
      scf.yield %x : tensor<4xf32>
    } else {
      scf.yield %s : tensor<4xf32>
    }
    scf.yield %n : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// Without known bounds, the loop stays.

// CHECK-LABEL: func.func @open
// CHECK: scf.for
func.func @open(%a: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %e = tensor.empty() : tensor<4xf32>
  %r = scf.for %i = %0 to %n step %1 iter_args(%s = %a) -> (tensor<4xf32>) {
    %x = linalg.add ins(%s, %s : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %x : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// The chosen tensor keeps its dynamic type, also if the size is constant.

// CHECK-LABEL: func.func @chosen
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?xf32>)
func.func @chosen(%c: i1, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<?xf32> {
  %a = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
  %b = tensor.cast %y : tensor<4xf32> to tensor<?xf32>
  %r = scf.if %c -> (tensor<?xf32>) {
    scf.yield %a : tensor<?xf32>
  } else {
    scf.yield %b : tensor<?xf32>
  }
  func.return %r : tensor<?xf32>
}
