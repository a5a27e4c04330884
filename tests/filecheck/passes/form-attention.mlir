// RUN: xdsl-opt %s --split-input-file -p 'linalg-to-contraction,form-attention{target=lavapipe}' | filecheck %s
// RUN: xdsl-opt %s --split-input-file -p 'linalg-to-contraction,form-attention{target=lavapipe},form-dispatches' | filecheck %s
// RUN: xdsl-opt %s --split-input-file -p 'linalg-to-contraction,form-attention{target=amd-rdna3}' | filecheck %s --check-prefix=OTHER

// Tensors of batch x sequence x heads x head size are read and written in place. Scores are not stored.
// CHECK:      func.func @main(%q: tensor<2x16x3x8xf16>, %k: tensor<2x24x3x8xf16>, %v: tensor<2x24x3x8xf16>)
// CHECK-NEXT:   %z = schedule.dispatch(%q, %k, %v)
// CHECK:          schedule.attention %q_1, %k_1, %v_1 into %{{.*}} loops = [2, 3, 16, 24, 8, 8] maps = [affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d4)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d3, d1, d4)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d3, d1, d5)>, affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d1, d5)>] scale = 0.353515625 causal = 1 :
// CHECK:        func.return %z

// On a target without a component map, few rows are computed by multiply-adds.
// OTHER:      schedule.attention %q_1, %k_1, %v_1 into
func.func @main(%q : tensor<2x16x3x8xf16>, %k : tensor<2x24x3x8xf16>, %v : tensor<2x24x3x8xf16>) -> tensor<2x16x3x8xf16> {
    %s_e = tensor.empty() : tensor<2x3x16x24xf32>
    %s_c = arith.constant 0.0 : f32
    %s_i = linalg.fill ins(%s_c : f32) outs(%s_e : tensor<2x3x16x24xf32>) -> tensor<2x3x16x24xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(b, h, m, n, d) -> (b, m, h, d)>, affine_map<(b, h, m, n, d) -> (b, n, h, d)>, affine_map<(b, h, m, n, d) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<2x16x3x8xf16>, tensor<2x24x3x8xf16>) outs(%s_i : tensor<2x3x16x24xf32>) {
    ^bb0(%x0 : f16, %x1 : f16, %x2 : f32):
    %l = arith.extf %x0 : f16 to f32
    %r = arith.extf %x1 : f16 to f32
    %product = arith.mulf %l, %r : f32
    %y = arith.addf %x2, %product : f32
    linalg.yield %y : f32
    } -> tensor<2x3x16x24xf32>
    %x_e = tensor.empty() : tensor<2x3x16x24xf32>
    %x = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x3x16x24xf32>) outs(%x_e : tensor<2x3x16x24xf32>) {
    ^bb0(%x0 : f32, %x1 : f32):
    %c = arith.constant 3.535156250e-01 : f32
    %scaled = arith.mulf %x0, %c : f32
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %off = arith.constant 1 : index
    %limit = arith.addi %i, %off : index
    %beyond = arith.cmpi sgt, %j, %limit : index
    %least = arith.constant 0xFF800000 : f32
    %y = arith.select %beyond, %least, %scaled : f32
    linalg.yield %y : f32
    } -> tensor<2x3x16x24xf32>
    %top_e = tensor.empty() : tensor<2x3x16xf32>
    %top_c = arith.constant 0xFF800000 : f32
    %top_i = linalg.fill ins(%top_c : f32) outs(%top_e : tensor<2x3x16xf32>) -> tensor<2x3x16xf32>
    %top = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x : tensor<2x3x16x24xf32>) outs(%top_i : tensor<2x3x16xf32>) {
    ^bb0(%x0 : f32, %x1 : f32):
    %y = arith.maximumf %x0, %x1 : f32
    linalg.yield %y : f32
    } -> tensor<2x3x16xf32>
    %w_e = tensor.empty() : tensor<2x3x16x24xf32>
    %w = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %top : tensor<2x3x16x24xf32>, tensor<2x3x16xf32>) outs(%w_e : tensor<2x3x16x24xf32>) {
    ^bb0(%x0 : f32, %x1 : f32, %x2 : f32):
    %d = arith.subf %x0, %x1 : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
    } -> tensor<2x3x16x24xf32>
    %sum_e = tensor.empty() : tensor<2x3x16xf32>
    %sum_c = arith.constant 0.0 : f32
    %sum_i = linalg.fill ins(%sum_c : f32) outs(%sum_e : tensor<2x3x16xf32>) -> tensor<2x3x16xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%w : tensor<2x3x16x24xf32>) outs(%sum_i : tensor<2x3x16xf32>) {
    ^bb0(%x0 : f32, %x1 : f32):
    %y = arith.addf %x1, %x0 : f32
    linalg.yield %y : f32
    } -> tensor<2x3x16xf32>
    %p_e = tensor.empty() : tensor<2x3x16x24xf16>
    %p = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%w, %sum : tensor<2x3x16x24xf32>, tensor<2x3x16xf32>) outs(%p_e : tensor<2x3x16x24xf16>) {
    ^bb0(%x0 : f32, %x1 : f32, %x2 : f16):
    %part = arith.divf %x0, %x1 : f32
    %y = arith.truncf %part : f32 to f16
    linalg.yield %y : f16
    } -> tensor<2x3x16x24xf16>
    %o_e = tensor.empty() : tensor<2x3x16x8xf32>
    %o_c = arith.constant 0.0 : f32
    %o_i = linalg.fill ins(%o_c : f32) outs(%o_e : tensor<2x3x16x8xf32>) -> tensor<2x3x16x8xf32>
    %o = linalg.generic {indexing_maps = [affine_map<(b, h, m, e, n) -> (b, h, m, n)>, affine_map<(b, h, m, e, n) -> (b, n, h, e)>, affine_map<(b, h, m, e, n) -> (b, h, m, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %v : tensor<2x3x16x24xf16>, tensor<2x24x3x8xf16>) outs(%o_i : tensor<2x3x16x8xf32>) {
    ^bb0(%x0 : f16, %x1 : f16, %x2 : f32):
    %l = arith.extf %x0 : f16 to f32
    %r = arith.extf %x1 : f16 to f32
    %product = arith.mulf %l, %r : f32
    %y = arith.addf %x2, %product : f32
    linalg.yield %y : f32
    } -> tensor<2x3x16x8xf32>
    %z_e = tensor.empty() : tensor<2x16x3x8xf16>
    %z = linalg.generic {indexing_maps = [affine_map<(b, h, m, e) -> (b, h, m, e)>, affine_map<(b, h, m, e) -> (b, m, h, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%o : tensor<2x3x16x8xf32>) outs(%z_e : tensor<2x16x3x8xf16>) {
    ^bb0(%x0 : f32, %x1 : f16):
    %y = arith.truncf %x0 : f32 to f16
    linalg.yield %y : f16
    } -> tensor<2x16x3x8xf16>
    func.return %z : tensor<2x16x3x8xf16>
}

// -----

// A mask of keys is broadcast, and keys are stored as d x n.
// CHECK:          schedule.attention %q_1, %k_1, %v_1 mask %mask_1 into %{{.*}} loops = [2, 16, 24, 8, 8] maps = [{{.*}}, affine_map<(d0, d1, d2, d3, d4) -> (0, d0, d3, d2)>, {{.*}}, affine_map<(d0, d1, d2, d3, d4) -> (0, 0, 0, d2)>]
func.func @main(%q : tensor<1x2x16x8xf16>, %k : tensor<1x2x8x24xf16>, %v : tensor<1x2x24x8xf16>, %mask : tensor<1x1x1x24xf16>) -> tensor<1x2x16x8xf16> {
    %s_e = tensor.empty() : tensor<1x2x16x24xf32>
    %s_c = arith.constant 0.0 : f32
    %s_i = linalg.fill ins(%s_c : f32) outs(%s_e : tensor<1x2x16x24xf32>) -> tensor<1x2x16x24xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(b, h, m, n, d) -> (b, h, m, d)>, affine_map<(b, h, m, n, d) -> (b, h, d, n)>, affine_map<(b, h, m, n, d) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<1x2x16x8xf16>, tensor<1x2x8x24xf16>) outs(%s_i : tensor<1x2x16x24xf32>) {
    ^bb0(%x0 : f16, %x1 : f16, %x2 : f32):
    %l = arith.extf %x0 : f16 to f32
    %r = arith.extf %x1 : f16 to f32
    %product = arith.mulf %l, %r : f32
    %y = arith.addf %x2, %product : f32
    linalg.yield %y : f32
    } -> tensor<1x2x16x24xf32>
    %x_e = tensor.empty() : tensor<1x2x16x24xf16>
    %x = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, 0, 0, n)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s, %mask : tensor<1x2x16x24xf32>, tensor<1x1x1x24xf16>) outs(%x_e : tensor<1x2x16x24xf16>) {
    ^bb0(%x0 : f32, %x1 : f16, %x2 : f16):
    %n = arith.truncf %x0 : f32 to f16
    %c = arith.constant 3.535156250e-01 : f16
    %scaled = arith.mulf %n, %c : f16
    %y = arith.addf %scaled, %x1 : f16
    linalg.yield %y : f16
    } -> tensor<1x2x16x24xf16>
    %top_e = tensor.empty() : tensor<1x2x16xf16>
    %top_c = arith.constant 0xFC00 : f16
    %top_i = linalg.fill ins(%top_c : f16) outs(%top_e : tensor<1x2x16xf16>) -> tensor<1x2x16xf16>
    %top = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x : tensor<1x2x16x24xf16>) outs(%top_i : tensor<1x2x16xf16>) {
    ^bb0(%x0 : f16, %x1 : f16):
    %y = arith.maximumf %x0, %x1 : f16
    linalg.yield %y : f16
    } -> tensor<1x2x16xf16>
    %w_e = tensor.empty() : tensor<1x2x16x24xf16>
    %w = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %top : tensor<1x2x16x24xf16>, tensor<1x2x16xf16>) outs(%w_e : tensor<1x2x16x24xf16>) {
    ^bb0(%x0 : f16, %x1 : f16, %x2 : f16):
    %d = arith.subf %x0, %x1 : f16
    %y = math.exp %d : f16
    linalg.yield %y : f16
    } -> tensor<1x2x16x24xf16>
    %sum_e = tensor.empty() : tensor<1x2x16xf16>
    %sum_c = arith.constant 0.0 : f16
    %sum_i = linalg.fill ins(%sum_c : f16) outs(%sum_e : tensor<1x2x16xf16>) -> tensor<1x2x16xf16>
    %sum = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%w : tensor<1x2x16x24xf16>) outs(%sum_i : tensor<1x2x16xf16>) {
    ^bb0(%x0 : f16, %x1 : f16):
    %y = arith.addf %x1, %x0 : f16
    linalg.yield %y : f16
    } -> tensor<1x2x16xf16>
    %p_e = tensor.empty() : tensor<1x2x16x24xf16>
    %p = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%w, %sum : tensor<1x2x16x24xf16>, tensor<1x2x16xf16>) outs(%p_e : tensor<1x2x16x24xf16>) {
    ^bb0(%x0 : f16, %x1 : f16, %x2 : f16):
    %y = arith.divf %x0, %x1 : f16
    linalg.yield %y : f16
    } -> tensor<1x2x16x24xf16>
    %o_e = tensor.empty() : tensor<1x2x16x8xf32>
    %o_c = arith.constant 0.0 : f32
    %o_i = linalg.fill ins(%o_c : f32) outs(%o_e : tensor<1x2x16x8xf32>) -> tensor<1x2x16x8xf32>
    %o = linalg.generic {indexing_maps = [affine_map<(b, h, m, e, n) -> (b, h, m, n)>, affine_map<(b, h, m, e, n) -> (b, h, n, e)>, affine_map<(b, h, m, e, n) -> (b, h, m, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %v : tensor<1x2x16x24xf16>, tensor<1x2x24x8xf16>) outs(%o_i : tensor<1x2x16x8xf32>) {
    ^bb0(%x0 : f16, %x1 : f16, %x2 : f32):
    %l = arith.extf %x0 : f16 to f32
    %r = arith.extf %x1 : f16 to f32
    %product = arith.mulf %l, %r : f32
    %y = arith.addf %x2, %product : f32
    linalg.yield %y : f32
    } -> tensor<1x2x16x8xf32>
    %z_e = tensor.empty() : tensor<1x2x16x8xf16>
    %z = linalg.generic {indexing_maps = [affine_map<(b, h, m, e) -> (b, h, m, e)>, affine_map<(b, h, m, e) -> (b, h, m, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%o : tensor<1x2x16x8xf32>) outs(%z_e : tensor<1x2x16x8xf16>) {
    ^bb0(%x0 : f32, %x1 : f16):
    %y = arith.truncf %x0 : f32 to f16
    linalg.yield %y : f16
    } -> tensor<1x2x16x8xf16>
    func.return %z : tensor<1x2x16x8xf16>
}
