// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-attention{target=lavapipe}' | filecheck %s
// RUN: xdsl-opt %s -p 'linalg-to-contraction,form-attention{target=lavapipe},form-dispatches,assign-schedule{target=lavapipe},outline-dispatches,attention-to-fma' | filecheck %s --check-prefix=KERNEL

// Keys and values are bytes with a factor per row. The attention kernel itself computes the floats.
// CHECK:      schedule.dispatch(%q, %qk, %dk, %qv, %dv)
// CHECK:        linalg.generic
// CHECK-SAME:     affine_map<(d0, d1, d2) -> (0, d0, d1, d2)>, affine_map<(d0, d1, d2) -> (0, d0, d1, 0)>
// CHECK-SAME:     tensor<1x3x24x16xi8>, tensor<1x3x24x1xf16>
// CHECK:        linalg.generic
// CHECK:        schedule.attention %q_1, %{{.*}}, %{{.*}} into
// CHECK-NOT:  linalg.generic

// KERNEL:       "gpu.func"
// KERNEL-NOT:   linalg.generic
// KERNEL:       memref.load %qk_elements{{.*}} : memref<72xvector<4xi32>
// KERNEL-NEXT:  memref.load %dk_elements{{.*}} : memref<72xf16
// KERNEL:       memref.load %qv_elements{{.*}} : memref<72xvector<4xi32>
// KERNEL-NEXT:  memref.load %dv_elements{{.*}} : memref<72xf16
// KERNEL:       math.exp2
// KERNEL:       sym_name = "attention_3x1x24x16x16"
func.func @main(%q : tensor<1x3x1x16xf16>, %qk : tensor<1x3x24x16xi8>, %dk : tensor<1x3x24x1xf16>, %qv : tensor<1x3x24x16xi8>, %dv : tensor<1x3x24x1xf16>) -> tensor<1x3x1x16xf16> {
    %ev = tensor.empty() : tensor<1x3x24x16xf16>
    %v = linalg.generic {indexing_maps = [affine_map<(b, h, n, d) -> (b, h, n, d)>, affine_map<(b, h, n, d) -> (b, h, n, 0)>,
        affine_map<(b, h, n, d) -> (b, h, n, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%qv, %dv : tensor<1x3x24x16xi8>, tensor<1x3x24x1xf16>)
        outs(%ev : tensor<1x3x24x16xf16>) {
    ^bb0(%x: i8, %d: f16, %before: f16):
      %w = arith.sitofp %x : i8 to f32
      %dw = arith.extf %d : f16 to f32
      %y = arith.mulf %w, %dw : f32
      %z = arith.truncf %y : f32 to f16
      linalg.yield %z : f16
    } -> tensor<1x3x24x16xf16>
    %ek = tensor.empty() : tensor<1x3x24x16xf16>
    %k = linalg.generic {indexing_maps = [affine_map<(b, h, n, d) -> (b, h, n, d)>, affine_map<(b, h, n, d) -> (b, h, n, 0)>,
        affine_map<(b, h, n, d) -> (b, h, n, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%qk, %dk : tensor<1x3x24x16xi8>, tensor<1x3x24x1xf16>)
        outs(%ek : tensor<1x3x24x16xf16>) {
    ^bb0(%x: i8, %d: f16, %before: f16):
      %w = arith.sitofp %x : i8 to f32
      %dw = arith.extf %d : f16 to f32
      %y = arith.mulf %w, %dw : f32
      %z = arith.truncf %y : f32 to f16
      linalg.yield %z : f16
    } -> tensor<1x3x24x16xf16>
    %s_e = tensor.empty() : tensor<1x3x1x24xf32>
    %s_c = arith.constant 0.0 : f32
    %s_i = linalg.fill ins(%s_c : f32) outs(%s_e : tensor<1x3x1x24xf32>) -> tensor<1x3x1x24xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(b, h, m, n, d) -> (b, h, m, d)>, affine_map<(b, h, m, n, d) -> (b, h, n, d)>, affine_map<(b, h, m, n, d) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<1x3x1x16xf16>, tensor<1x3x24x16xf16>) outs(%s_i : tensor<1x3x1x24xf32>) {
    ^bb0(%x0 : f16, %x1 : f16, %x2 : f32):
    %l = arith.extf %x0 : f16 to f32
    %r = arith.extf %x1 : f16 to f32
    %product = arith.mulf %l, %r : f32
    %y = arith.addf %x2, %product : f32
    linalg.yield %y : f32
    } -> tensor<1x3x1x24xf32>
    %x_e = tensor.empty() : tensor<1x3x1x24xf32>
    %x = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s : tensor<1x3x1x24xf32>) outs(%x_e : tensor<1x3x1x24xf32>) {
    ^bb0(%x0 : f32, %x1 : f32):
    %c = arith.constant 2.500000000e-01 : f32
    %y = arith.mulf %x0, %c : f32
    linalg.yield %y : f32
    } -> tensor<1x3x1x24xf32>
    %top_e = tensor.empty() : tensor<1x3x1xf32>
    %top_c = arith.constant 0xFF800000 : f32
    %top_i = linalg.fill ins(%top_c : f32) outs(%top_e : tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
    %top = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x : tensor<1x3x1x24xf32>) outs(%top_i : tensor<1x3x1xf32>) {
    ^bb0(%x0 : f32, %x1 : f32):
    %y = arith.maximumf %x0, %x1 : f32
    linalg.yield %y : f32
    } -> tensor<1x3x1xf32>
    %w_e = tensor.empty() : tensor<1x3x1x24xf32>
    %w = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %top : tensor<1x3x1x24xf32>, tensor<1x3x1xf32>) outs(%w_e : tensor<1x3x1x24xf32>) {
    ^bb0(%x0 : f32, %x1 : f32, %x2 : f32):
    %d = arith.subf %x0, %x1 : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
    } -> tensor<1x3x1x24xf32>
    %sum_e = tensor.empty() : tensor<1x3x1xf32>
    %sum_c = arith.constant 0.0 : f32
    %sum_i = linalg.fill ins(%sum_c : f32) outs(%sum_e : tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%w : tensor<1x3x1x24xf32>) outs(%sum_i : tensor<1x3x1xf32>) {
    ^bb0(%x0 : f32, %x1 : f32):
    %y = arith.addf %x1, %x0 : f32
    linalg.yield %y : f32
    } -> tensor<1x3x1xf32>
    %p_e = tensor.empty() : tensor<1x3x1x24xf16>
    %p = linalg.generic {indexing_maps = [affine_map<(b, h, m, n) -> (b, h, m, n)>, affine_map<(b, h, m, n) -> (b, h, m)>, affine_map<(b, h, m, n) -> (b, h, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%w, %sum : tensor<1x3x1x24xf32>, tensor<1x3x1xf32>) outs(%p_e : tensor<1x3x1x24xf16>) {
    ^bb0(%x0 : f32, %x1 : f32, %x2 : f16):
    %part = arith.divf %x0, %x1 : f32
    %y = arith.truncf %part : f32 to f16
    linalg.yield %y : f16
    } -> tensor<1x3x1x24xf16>
    %o_e = tensor.empty() : tensor<1x3x1x16xf32>
    %o_c = arith.constant 0.0 : f32
    %o_i = linalg.fill ins(%o_c : f32) outs(%o_e : tensor<1x3x1x16xf32>) -> tensor<1x3x1x16xf32>
    %o = linalg.generic {indexing_maps = [affine_map<(b, h, m, e, n) -> (b, h, m, n)>, affine_map<(b, h, m, e, n) -> (b, h, n, e)>, affine_map<(b, h, m, e, n) -> (b, h, m, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %v : tensor<1x3x1x24xf16>, tensor<1x3x24x16xf16>) outs(%o_i : tensor<1x3x1x16xf32>) {
    ^bb0(%x0 : f16, %x1 : f16, %x2 : f32):
    %l = arith.extf %x0 : f16 to f32
    %r = arith.extf %x1 : f16 to f32
    %product = arith.mulf %l, %r : f32
    %y = arith.addf %x2, %product : f32
    linalg.yield %y : f32
    } -> tensor<1x3x1x16xf32>
    %z_e = tensor.empty() : tensor<1x3x1x16xf16>
    %z = linalg.generic {indexing_maps = [affine_map<(b, h, m, e) -> (b, h, m, e)>, affine_map<(b, h, m, e) -> (b, h, m, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%o : tensor<1x3x1x16xf32>) outs(%z_e : tensor<1x3x1x16xf16>) {
    ^bb0(%x0 : f32, %x1 : f16):
    %y = arith.truncf %x0 : f32 to f16
    linalg.yield %y : f16
    } -> tensor<1x3x1x16xf16>
    func.return %z : tensor<1x3x1x16xf16>
}
