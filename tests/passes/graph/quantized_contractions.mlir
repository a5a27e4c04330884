// Sums over K of (a - za) * (b - zb) in every spelling, for test_quantized_contractions.py.

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
#m = affine_map<(m, n, k) -> (m)>
#n = affine_map<(m, n, k) -> (n)>
#k = affine_map<(m, n, k) -> (k)>
#one = affine_map<(m, n, k) -> ()>

func.func @scalars(%a: tensor<5x9xi8>, %b: tensor<9x6xi8>, %p: i32, %q: i32, %o: tensor<5x6xi32>) -> tensor<5x6xi32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #one, #one, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %p, %q : tensor<5x9xi8>, tensor<9x6xi8>, i32, i32) outs(%o : tensor<5x6xi32>) {
  ^bb0(%x: i8, %y: i8, %za: i32, %zb: i32, %c: i32):
    %xx = arith.extsi %x : i8 to i32
    %yy = arith.extsi %y : i8 to i32
    %f = arith.subi %xx, %za : i32
    %g = arith.subi %yy, %zb : i32
    %t = arith.muli %g, %f : i32
    %s = arith.addi %t, %c : i32
    linalg.yield %s : i32
  } -> tensor<5x6xi32>
  return %r : tensor<5x6xi32>
}

func.func @mixed_signs(%a: tensor<5x9xi8>, %b: tensor<9x6xi8>, %p: i32, %q: i32, %o: tensor<5x6xi32>) -> tensor<5x6xi32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #one, #one, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %p, %q : tensor<5x9xi8>, tensor<9x6xi8>, i32, i32) outs(%o : tensor<5x6xi32>) {
  ^bb0(%x: i8, %y: i8, %za: i32, %zb: i32, %c: i32):
    %xx = arith.extui %x : i8 to i32
    %yy = arith.extsi %y : i8 to i32
    %f = arith.subi %xx, %za : i32
    %g = arith.subi %yy, %zb : i32
    %t = arith.muli %g, %f : i32
    %s = arith.addi %t, %c : i32
    linalg.yield %s : i32
  } -> tensor<5x6xi32>
  return %r : tensor<5x6xi32>
}

func.func @rows_and_columns(%a: tensor<5x9xi8>, %b: tensor<9x6xi8>, %p: tensor<5xi32>, %q: tensor<6xi32>, %o: tensor<5x6xi32>) -> tensor<5x6xi32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #m, #n, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %p, %q : tensor<5x9xi8>, tensor<9x6xi8>, tensor<5xi32>, tensor<6xi32>) outs(%o : tensor<5x6xi32>) {
  ^bb0(%x: i8, %y: i8, %za: i32, %zb: i32, %c: i32):
    %xx = arith.extsi %x : i8 to i32
    %yy = arith.extsi %y : i8 to i32
    %f = arith.subi %xx, %za : i32
    %g = arith.subi %yy, %zb : i32
    %t = arith.muli %g, %f : i32
    %s = arith.addi %t, %c : i32
    linalg.yield %s : i32
  } -> tensor<5x6xi32>
  return %r : tensor<5x6xi32>
}

func.func @bytes_of_each_column(%a: tensor<5x9xi8>, %b: tensor<9x6xi8>, %p: i32, %q: tensor<6xi8>, %o: tensor<5x6xi32>) -> tensor<5x6xi32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #one, #n, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %p, %q : tensor<5x9xi8>, tensor<9x6xi8>, i32, tensor<6xi8>) outs(%o : tensor<5x6xi32>) {
  ^bb0(%x: i8, %y: i8, %za: i32, %zb: i8, %c: i32):
    %xx = arith.extsi %x : i8 to i32
    %yy = arith.extsi %y : i8 to i32
    %f = arith.subi %xx, %za : i32
    %z = arith.extsi %zb : i8 to i32
    %g = arith.subi %yy, %z : i32
    %t = arith.muli %g, %f : i32
    %s = arith.addi %t, %c : i32
    linalg.yield %s : i32
  } -> tensor<5x6xi32>
  return %r : tensor<5x6xi32>
}

func.func @differences_of_16_bits(%a: tensor<5x9xi8>, %b: tensor<9x6xi8>, %p: i32, %q: tensor<6xi8>, %o: tensor<5x6xi32>) -> tensor<5x6xi32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #one, #n, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %p, %q : tensor<5x9xi8>, tensor<9x6xi8>, i32, tensor<6xi8>) outs(%o : tensor<5x6xi32>) {
  ^bb0(%x: i8, %y: i8, %za: i32, %zb: i8, %c: i32):
    %xx = arith.extui %x : i8 to i16
    %z = arith.constant 117 : i16
    %d = arith.subi %xx, %z : i16
    %f = arith.extsi %d : i16 to i32
    %yy = arith.extsi %y : i8 to i16
    %w = arith.extsi %zb : i8 to i16
    %e = arith.subi %yy, %w : i16
    %g = arith.extsi %e : i16 to i32
    %t = arith.muli %g, %f : i32
    %s = arith.addi %t, %c : i32
    linalg.yield %s : i32
  } -> tensor<5x6xi32>
  return %r : tensor<5x6xi32>
}

func.func @added_and_one_only(%a: tensor<5x9xi8>, %b: tensor<9x6xi8>, %p: i32, %q: i32, %o: tensor<5x6xi32>) -> tensor<5x6xi32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #one, #one, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %p, %q : tensor<5x9xi8>, tensor<9x6xi8>, i32, i32) outs(%o : tensor<5x6xi32>) {
  ^bb0(%x: i8, %y: i8, %za: i32, %zb: i32, %c: i32):
    %xx = arith.extui %x : i8 to i32
    %z = arith.constant -128 : i32
    %f = arith.addi %z, %xx : i32
    %g = arith.extsi %y : i8 to i32
    %t = arith.muli %g, %f : i32
    %s = arith.addi %t, %c : i32
    linalg.yield %s : i32
  } -> tensor<5x6xi32>
  return %r : tensor<5x6xi32>
}

func.func @added_arguments(%a: tensor<5x9xi8>, %b: tensor<9x6xi8>, %p: i32, %q: i32, %o: tensor<5x6xi32>) -> tensor<5x6xi32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #one, #one, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %p, %q : tensor<5x9xi8>, tensor<9x6xi8>, i32, i32) outs(%o : tensor<5x6xi32>) {
  ^bb0(%x: i8, %y: i8, %za: i32, %zb: i32, %c: i32):
    %xx = arith.extsi %x : i8 to i32
    %yy = arith.extsi %y : i8 to i32
    %f = arith.addi %xx, %za : i32
    %g = arith.addi %yy, %zb : i32
    %t = arith.muli %g, %f : i32
    %s = arith.addi %t, %c : i32
    linalg.yield %s : i32
  } -> tensor<5x6xi32>
  return %r : tensor<5x6xi32>
}

func.func @a_zero_point_of_each_term(%a: tensor<5x9xi8>, %b: tensor<9x6xi8>, %p: tensor<9xi32>, %q: i32, %o: tensor<5x6xi32>) -> tensor<5x6xi32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #k, #one, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %p, %q : tensor<5x9xi8>, tensor<9x6xi8>, tensor<9xi32>, i32) outs(%o : tensor<5x6xi32>) {
  ^bb0(%x: i8, %y: i8, %za: i32, %zb: i32, %c: i32):
    %xx = arith.extsi %x : i8 to i32
    %yy = arith.extsi %y : i8 to i32
    %f = arith.subi %xx, %za : i32
    %g = arith.subi %yy, %zb : i32
    %t = arith.muli %g, %f : i32
    %s = arith.addi %t, %c : i32
    linalg.yield %s : i32
  } -> tensor<5x6xi32>
  return %r : tensor<5x6xi32>
}

func.func @a_difference_that_may_wrap(%a: tensor<5x9xi8>, %b: tensor<9x6xi8>, %p: i32, %q: i32, %o: tensor<5x6xi32>) -> tensor<5x6xi32> {
  %r = linalg.generic {indexing_maps = [#mk, #kn, #one, #one, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %p, %q : tensor<5x9xi8>, tensor<9x6xi8>, i32, i32) outs(%o : tensor<5x6xi32>) {
  ^bb0(%x: i8, %y: i8, %za: i32, %zb: i32, %c: i32):
    %z = arith.constant 3 : i8
    %d = arith.subi %x, %z : i8
    %f = arith.extsi %d : i8 to i32
    %g = arith.extsi %y : i8 to i32
    %t = arith.muli %g, %f : i32
    %s = arith.addi %t, %c : i32
    linalg.yield %s : i32
  } -> tensor<5x6xi32>
  return %r : tensor<5x6xi32>
}

func.func @known_to_be_0(%a: tensor<5x9xi8>, %b: tensor<9x6xi8>, %p: i32, %q: i32, %o: tensor<5x6xi32>) -> tensor<5x6xi32> {
  %z = arith.constant 0 : i32
  %r = linalg.generic {indexing_maps = [#mk, #kn, #one, #one, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %p, %q : tensor<5x9xi8>, tensor<9x6xi8>, i32, i32) outs(%o : tensor<5x6xi32>) {
  ^bb0(%x: i8, %y: i8, %za: i32, %zb: i32, %c: i32):
    %xx = arith.extui %x : i8 to i32
    %f = arith.addi %xx, %z : i32
    %yy = arith.extsi %y : i8 to i32
    %g = arith.addi %yy, %z : i32
    %t = arith.muli %g, %f : i32
    %s = arith.addi %t, %c : i32
    linalg.yield %s : i32
  } -> tensor<5x6xi32>
  return %r : tensor<5x6xi32>
}

func.func @known_to_be_1(%a: tensor<5x9xi8>, %b: tensor<9x6xi8>, %p: i32, %q: i32, %o: tensor<5x6xi32>) -> tensor<5x6xi32> {
  %z = arith.constant 1 : i32
  %r = linalg.generic {indexing_maps = [#mk, #kn, #one, #one, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b, %p, %q : tensor<5x9xi8>, tensor<9x6xi8>, i32, i32) outs(%o : tensor<5x6xi32>) {
  ^bb0(%x: i8, %y: i8, %za: i32, %zb: i32, %c: i32):
    %xx = arith.extui %x : i8 to i32
    %f = arith.addi %xx, %z : i32
    %yy = arith.extsi %y : i8 to i32
    %g = arith.addi %yy, %z : i32
    %t = arith.muli %g, %f : i32
    %s = arith.addi %t, %c : i32
    linalg.yield %s : i32
  } -> tensor<5x6xi32>
  return %r : tensor<5x6xi32>
}

func.func @a_constant_without_signs(%a: tensor<2x2xi8>, %c: tensor<2x2xi32>) -> tensor<2x2xi32> {
  %w = arith.constant dense<[[1, -2], [255, 128]]> : tensor<2x2xi8>
  %r = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<2x2xi8>, tensor<2x2xi8>) outs(%c : tensor<2x2xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %xx = arith.extsi %x : i8 to i32
    %yy = arith.extui %y : i8 to i32
    %p = arith.muli %xx, %yy : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<2x2xi32>
  return %r : tensor<2x2xi32>
}

func.func @turned_weights(%a: tensor<21x48xi8>, %b: tensor<37x48xi8>) -> tensor<21x37xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<21x37xi32>
  %c = linalg.fill ins(%zero : i32) outs(%e : tensor<21x37xi32>) -> tensor<21x37xi32>
  %r = linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<21x48xi8>, tensor<37x48xi8>) outs(%c : tensor<21x37xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %xx = arith.extui %x : i8 to i32
    %yy = arith.extsi %y : i8 to i32
    %p = arith.muli %xx, %yy : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<21x37xi32>
  return %r : tensor<21x37xi32>
}
