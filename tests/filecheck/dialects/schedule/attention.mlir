// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP

func.func @main(%q: tensor<4x16x8xf16>, %k: tensor<4x8x24xf16>, %v: tensor<4x24x8xf16>, %mask: tensor<24xf32>, %e: tensor<4x16x8xf32>) -> tensor<4x16x8xf32> {
  // CHECK: %0 = schedule.attention %q, %k, %v mask %mask into %e loops = [4, 16, 24, 8, 8] maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d2)>] scale = 2.500000e-01 causal = -3 nan_to_zero narrow {schedule = #schedule.attention<query_tile = 16, key_tile = 8, subgroups = 2, instruction = coopmat 8x8x8, q = rows, k = direct, v = direct, rescale = always>} : tensor<4x16x8xf16>, tensor<4x8x24xf16>, tensor<4x24x8xf16>, tensor<24xf32> into tensor<4x16x8xf32> -> tensor<4x16x8xf32>
  // CHECK-GENERIC: "schedule.attention"(%q, %k, %v, %mask, %e) <{
  %0 = schedule.attention %q, %k, %v mask %mask into %e loops = [4, 16, 24, 8, 8] maps = [affine_map<(b, m, n, d, e) -> (b, m, d)>, affine_map<(b, m, n, d, e) -> (b, d, n)>, affine_map<(b, m, n, d, e) -> (b, n, e)>, affine_map<(b, m, n, d, e) -> (b, m, e)>, affine_map<(b, m, n, d, e) -> (n)>] scale = 0.25 causal = -3 nan_to_zero narrow {schedule = #schedule.attention<query_tile = 16, key_tile = 8, subgroups = 2, instruction = coopmat 8x8x8, q = rows, rescale = always>} : tensor<4x16x8xf16>, tensor<4x8x24xf16>, tensor<4x24x8xf16>, tensor<24xf32> into tensor<4x16x8xf32> -> tensor<4x16x8xf32>
  func.return %0 : tensor<4x16x8xf32>
}

func.func @sink(%q: tensor<16x8xf16>, %k: tensor<24x8xf16>, %mask: tensor<24xf32>, %sink: tensor<1xf32>, %e: tensor<16x8xf32>) -> tensor<16x8xf32> {
  // CHECK: %0 = schedule.attention %q, %k, %k mask %mask sink %sink into %e loops = [16, 24, 8, 8] maps = [affine_map<(d0, d1, d2, d3) -> (d0, d2)>, affine_map<(d0, d1, d2, d3) -> (d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (0)>] scale = 2.500000e-01 : tensor<16x8xf16>, tensor<24x8xf16>, tensor<24x8xf16>, tensor<24xf32> sink tensor<1xf32> into tensor<16x8xf32> -> tensor<16x8xf32>
  // CHECK-GENERIC: "schedule.attention"(%q, %k, %k, %mask, %sink, %e) <{
  %0 = schedule.attention %q, %k, %k mask %mask sink %sink into %e loops = [16, 24, 8, 8] maps = [affine_map<(d0, d1, d2, d3) -> (d0, d2)>, affine_map<(d0, d1, d2, d3) -> (d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3)>, affine_map<(d0, d1, d2, d3) -> (d1)>, affine_map<(d0, d1, d2, d3) -> (0)>] scale = 2.500000e-01 : tensor<16x8xf16>, tensor<24x8xf16>, tensor<24x8xf16>, tensor<24xf32> sink tensor<1xf32> into tensor<16x8xf32> -> tensor<16x8xf32>
  func.return %0 : tensor<16x8xf32>
}
