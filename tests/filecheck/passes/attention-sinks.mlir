// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-attention{target=lavapipe}' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-attention{target=lavapipe},form-dispatches,assign-schedule{target=lavapipe},pack-operands,outline-dispatches,attention-to-cooperative-matrix' | filecheck %s --check-prefix=MATRIX
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-attention{target=qualcomm-adreno},form-dispatches,assign-schedule{target=qualcomm-adreno},outline-dispatches,attention-to-fma' | filecheck %s --check-prefix=LANES

// Each head has one more score, whose value is 0. Maxima begin at this score, and the sum includes its power.
// CHECK:      schedule.dispatch(%q, %k, %v, %sink)
// CHECK-NEXT: ^bb0
// CHECK:        schedule.attention %q_1, %k_1, %v_1 sink %sink_1 into %{{.*}} loops = [3, 16, 24, 8, 8]
// CHECK-SAME:     affine_map<(d0, d1, d2, d3, d4) -> (d0)>] scale
// CHECK-SAME:     tensor<1x3x24x8xf16> sink tensor<3xf32> into
// CHECK-NOT:  linalg.generic
// MATRIX:      %[[SINK:.*]] = memref.load %sink_elements[%batch]
// MATRIX:      %[[UNIT:.*]] = arith.mulf %[[SINK]],
// MATRIX:      %[[TOP:.*]] = arith.maxnumf %[[UNIT]],
// MATRIX:      arith.maxnumf %[[TOP]],
// MATRIX:      arith.subf %[[UNIT]],
// MATRIX-NEXT: math.exp2
// LANES:      %[[SINK:.*]] = memref.load %sink_elements[%batch]
// LANES:      %[[UNIT:.*]] = arith.mulf %[[SINK]],
// LANES:      %[[TOP:.*]] = arith.maxnumf %[[UNIT]],
// LANES-NEXT: arith.subf %[[UNIT]], %[[TOP]]
// LANES-NEXT: %[[POWER:.*]] = math.exp2
// LANES:      scf.for %key = {{.*}} = %[[TOP]], {{.*}} = %[[POWER]],
func.func @main(%q : tensor<1x3x16x8xf16>, %k : tensor<1x3x24x8xf16>, %v : tensor<1x3x24x8xf16>, %sink : tensor<3xf32>) -> tensor<1x3x16x8xf16> {
    %s_e = tensor.empty() : tensor<1x3x16x24xf32>
    %s_c = arith.constant 0.0 : f32
    %s_i = linalg.fill ins(%s_c : f32) outs(%s_e : tensor<1x3x16x24xf32>) -> tensor<1x3x16x24xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(b, h, m, n, d) -> (b, h, m, d)>, affine_map<(b, h, m, n, d) -> (b, h, n, d)>, affine_map<(b, h, m, n, d) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<1x3x16x8xf16>, tensor<1x3x24x8xf16>) outs(%s_i : tensor<1x3x16x24xf32>) {
    ^bb0(%x0 : f16, %x1 : f16, %x2 : f32):
    %l = arith.extf %x0 : f16 to f32
    %r = arith.extf %x1 : f16 to f32
    %product = arith.mulf %l, %r : f32
    %y = arith.addf %x2, %product : f32
    linalg.yield %y : f32
    } -> tensor<1x3x16x24xf32>
    %x_e = tensor.empty() : tensor<1x3x16x24xf32>
    %x = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s : tensor<1x3x16x24xf32>) outs(%x_e : tensor<1x3x16x24xf32>) {
    ^bb0(%x0 : f32, %x1 : f32):
    %c = arith.constant 3.535156250e-01 : f32
    %y = arith.mulf %x0, %c : f32
    linalg.yield %y : f32
    } -> tensor<1x3x16x24xf32>
    %top_e = tensor.empty() : tensor<1x3x16xf32>
    %top_c = arith.constant 0xFF800000 : f32
    %top_i = linalg.fill ins(%top_c : f32) outs(%top_e : tensor<1x3x16xf32>) -> tensor<1x3x16xf32>
    %top = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x : tensor<1x3x16x24xf32>) outs(%top_i : tensor<1x3x16xf32>) {
    ^bb0(%x0 : f32, %x1 : f32):
    %y = arith.maximumf %x0, %x1 : f32
    linalg.yield %y : f32
    } -> tensor<1x3x16xf32>
    %most_e = tensor.empty() : tensor<1x3x16xf32>
    %most = linalg.generic {indexing_maps = [affine_map<(b, h, m) -> (b, h, m)>, affine_map<(b, h, m) -> (h)>, affine_map<(b, h, m) -> (b, h, m)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%top, %sink : tensor<1x3x16xf32>, tensor<3xf32>) outs(%most_e : tensor<1x3x16xf32>) {
    ^bb0(%x0 : f32, %x1 : f32, %x2 : f32):
    %y = arith.maximumf %x0, %x1 : f32
    linalg.yield %y : f32
    } -> tensor<1x3x16xf32>
    %w_e = tensor.empty() : tensor<1x3x16x24xf32>
    %w = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %most : tensor<1x3x16x24xf32>, tensor<1x3x16xf32>) outs(%w_e : tensor<1x3x16x24xf32>) {
    ^bb0(%x0 : f32, %x1 : f32, %x2 : f32):
    %d = arith.subf %x0, %x1 : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
    } -> tensor<1x3x16x24xf32>
    %sum_e = tensor.empty() : tensor<1x3x16xf32>
    %sum_c = arith.constant 0.0 : f32
    %sum_i = linalg.fill ins(%sum_c : f32) outs(%sum_e : tensor<1x3x16xf32>) -> tensor<1x3x16xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%w : tensor<1x3x16x24xf32>) outs(%sum_i : tensor<1x3x16xf32>) {
    ^bb0(%x0 : f32, %x1 : f32):
    %y = arith.addf %x1, %x0 : f32
    linalg.yield %y : f32
    } -> tensor<1x3x16xf32>
    %total_e = tensor.empty() : tensor<1x3x16xf32>
    %total = linalg.generic {indexing_maps = [affine_map<(b, h, m) -> (b, h, m)>, affine_map<(b, h, m) -> (b, h, m)>, affine_map<(b, h, m) -> (h)>, affine_map<(b, h, m) -> (b, h, m)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%sum, %most, %sink : tensor<1x3x16xf32>, tensor<1x3x16xf32>, tensor<3xf32>) outs(%total_e : tensor<1x3x16xf32>) {
    ^bb0(%x0 : f32, %x1 : f32, %x2 : f32, %x3 : f32):
    %d = arith.subf %x2, %x1 : f32
    %p = math.exp %d : f32
    %y = arith.addf %x0, %p : f32
    linalg.yield %y : f32
    } -> tensor<1x3x16xf32>
    %p_e = tensor.empty() : tensor<1x3x16x24xf16>
    %p = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%w, %total : tensor<1x3x16x24xf32>, tensor<1x3x16xf32>) outs(%p_e : tensor<1x3x16x24xf16>) {
    ^bb0(%x0 : f32, %x1 : f32, %x2 : f16):
    %part = arith.divf %x0, %x1 : f32
    %y = arith.truncf %part : f32 to f16
    linalg.yield %y : f16
    } -> tensor<1x3x16x24xf16>
    %o_e = tensor.empty() : tensor<1x3x16x8xf32>
    %o_c = arith.constant 0.0 : f32
    %o_i = linalg.fill ins(%o_c : f32) outs(%o_e : tensor<1x3x16x8xf32>) -> tensor<1x3x16x8xf32>
    %o = linalg.generic {indexing_maps = [affine_map<(b, h, m, e, n) -> (b, h, m, n)>, affine_map<(b, h, m, e, n) -> (b, h, n, e)>, affine_map<(b, h, m, e, n) -> (b, h, m, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %v : tensor<1x3x16x24xf16>, tensor<1x3x24x8xf16>) outs(%o_i : tensor<1x3x16x8xf32>) {
    ^bb0(%x0 : f16, %x1 : f16, %x2 : f32):
    %l = arith.extf %x0 : f16 to f32
    %r = arith.extf %x1 : f16 to f32
    %product = arith.mulf %l, %r : f32
    %y = arith.addf %x2, %product : f32
    linalg.yield %y : f32
    } -> tensor<1x3x16x8xf32>
    %z_e = tensor.empty() : tensor<1x3x16x8xf16>
    %z = linalg.generic {indexing_maps = [affine_map<(b, h, m, e) -> (b, h, m, e)>, affine_map<(b, h, m, e) -> (b, h, m, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%o : tensor<1x3x16x8xf32>) outs(%z_e : tensor<1x3x16x8xf16>) {
    ^bb0(%x0 : f32, %x1 : f16):
    %y = arith.truncf %x0 : f32 to f16
    linalg.yield %y : f16
    } -> tensor<1x3x16x8xf16>
    func.return %z : tensor<1x3x16x8xf16>
}
