// An RMS norm and the products that read it, for test_fold_norms.py. The test gives the types !x (m x k), !rows (m), !columns (k),
// !w (n x k) and !y (m x n), and #inverse, which is 1 / k.

#m = affine_map<(m) -> (m)>
#mk = affine_map<(m, k) -> (m, k)>
#row = affine_map<(m, k) -> (m)>
#column = affine_map<(m, k) -> (k)>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#epsilon = 1.0e-05 : f32

// One product, by the reciprocal of the root; the norm is returned, too.
func.func @shown(%x: !x, %g: !columns, %bias: !y, %w: !w) -> (!y, !x) {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : !rows
  %ex = tensor.empty() : !x
  %ey = tensor.empty() : !y
  %zr = linalg.fill ins(%zero : f32) outs(%er : !rows) -> !rows
  %zy = linalg.fill ins(%zero : f32) outs(%ey : !y) -> !y
  %squares = linalg.generic {indexing_maps = [#mk, #row], iterator_types = ["parallel", "reduction"]} ins(%x : !x) outs(%zr : !rows) {
  ^bb0(%a: f32, %t: f32):
    %q = arith.mulf %a, %a : f32
    %r = arith.addf %t, %q : f32
    linalg.yield %r : f32
  } -> !rows
  %scales = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%squares : !rows) outs(%er : !rows) {
  ^bb0(%a: f32, %t: f32):
    %c = arith.constant #inverse
    %e = arith.constant #epsilon
    %q = arith.mulf %a, %c : f32
    %p = arith.addf %q, %e : f32
    %r = math.rsqrt %p : f32
    linalg.yield %r : f32
  } -> !rows
  %scaled = linalg.generic {indexing_maps = [#mk, #row, #mk], iterator_types = ["parallel", "parallel"]} ins(%x, %scales : !x, !rows) outs(%ex : !x) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> !x
  %norm = linalg.generic {indexing_maps = [#mk, #column, #mk], iterator_types = ["parallel", "parallel"]} ins(%scaled, %g : !x, !columns) outs(%ex : !x) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> !x
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%norm, %w : !x, !w) outs(%zy : !y) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %q = arith.mulf %a, %b : f32
    %r = arith.addf %t, %q : f32
    linalg.yield %r : f32
  } -> !y
  %y = linalg.add ins(%p, %bias : !y, !y) outs(%ey : !y) -> !y
  return %y, %norm : !y, !x
}

// The same, without the norm.
func.func @once(%x: !x, %g: !columns, %bias: !y, %w: !w) -> !y {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : !rows
  %ex = tensor.empty() : !x
  %ey = tensor.empty() : !y
  %zr = linalg.fill ins(%zero : f32) outs(%er : !rows) -> !rows
  %zy = linalg.fill ins(%zero : f32) outs(%ey : !y) -> !y
  %squares = linalg.generic {indexing_maps = [#mk, #row], iterator_types = ["parallel", "reduction"]} ins(%x : !x) outs(%zr : !rows) {
  ^bb0(%a: f32, %t: f32):
    %q = arith.mulf %a, %a : f32
    %r = arith.addf %t, %q : f32
    linalg.yield %r : f32
  } -> !rows
  %scales = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%squares : !rows) outs(%er : !rows) {
  ^bb0(%a: f32, %t: f32):
    %c = arith.constant #inverse
    %e = arith.constant #epsilon
    %q = arith.mulf %a, %c : f32
    %p = arith.addf %q, %e : f32
    %r = math.rsqrt %p : f32
    linalg.yield %r : f32
  } -> !rows
  %scaled = linalg.generic {indexing_maps = [#mk, #row, #mk], iterator_types = ["parallel", "parallel"]} ins(%x, %scales : !x, !rows) outs(%ex : !x) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> !x
  %norm = linalg.generic {indexing_maps = [#mk, #column, #mk], iterator_types = ["parallel", "parallel"]} ins(%scaled, %g : !x, !columns) outs(%ex : !x) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> !x
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%norm, %w : !x, !w) outs(%zy : !y) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %q = arith.mulf %a, %b : f32
    %r = arith.addf %t, %q : f32
    linalg.yield %r : f32
  } -> !y
  %y = linalg.add ins(%p, %bias : !y, !y) outs(%ey : !y) -> !y
  return %y : !y
}

// Two products, by division by the root.
func.func @twice(%x: !x, %g: !columns, %bias: !y, %w: !w, %v: !w) -> (!y, !y) {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : !rows
  %ex = tensor.empty() : !x
  %ey = tensor.empty() : !y
  %zr = linalg.fill ins(%zero : f32) outs(%er : !rows) -> !rows
  %zy = linalg.fill ins(%zero : f32) outs(%ey : !y) -> !y
  %squares = linalg.generic {indexing_maps = [#mk, #row], iterator_types = ["parallel", "reduction"]} ins(%x : !x) outs(%zr : !rows) {
  ^bb0(%a: f32, %t: f32):
    %q = arith.mulf %a, %a : f32
    %r = arith.addf %t, %q : f32
    linalg.yield %r : f32
  } -> !rows
  %scales = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%squares : !rows) outs(%er : !rows) {
  ^bb0(%a: f32, %t: f32):
    %c = arith.constant #inverse
    %e = arith.constant #epsilon
    %q = arith.mulf %a, %c : f32
    %p = arith.addf %q, %e : f32
    %r = math.sqrt %p : f32
    linalg.yield %r : f32
  } -> !rows
  %scaled = linalg.generic {indexing_maps = [#mk, #row, #mk], iterator_types = ["parallel", "parallel"]} ins(%x, %scales : !x, !rows) outs(%ex : !x) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> !x
  %norm = linalg.generic {indexing_maps = [#mk, #column, #mk], iterator_types = ["parallel", "parallel"]} ins(%scaled, %g : !x, !columns) outs(%ex : !x) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> !x
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%norm, %w : !x, !w) outs(%zy : !y) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %q = arith.mulf %a, %b : f32
    %r = arith.addf %t, %q : f32
    linalg.yield %r : f32
  } -> !y
  %y = linalg.add ins(%p, %bias : !y, !y) outs(%ey : !y) -> !y
  %q = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%norm, %v : !x, !w) outs(%zy : !y) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %q = arith.mulf %a, %b : f32
    %r = arith.addf %t, %q : f32
    linalg.yield %r : f32
  } -> !y
  %z = linalg.add ins(%q, %bias : !y, !y) outs(%ey : !y) -> !y
  return %y, %z : !y, !y
}
