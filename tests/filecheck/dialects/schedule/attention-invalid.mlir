// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s

func.func @main(%q: tensor<16x8xf16>, %k: tensor<24x8xf16>, %e: tensor<16x8xf32>) {
  // CHECK: q cannot depend on n, e: its map is (d0, d1, d2, d3) -> (d1, d2)
  %0 = schedule.attention %q, %k, %k into %e loops = [16, 24, 8, 8] maps = [affine_map<(m, n, d, e) -> (n, d)>, affine_map<(m, n, d, e) -> (n, d)>, affine_map<(m, n, d, e) -> (n, e)>, affine_map<(m, n, d, e) -> (m, e)>] scale = 1.0 : tensor<16x8xf16>, tensor<24x8xf16>, tensor<24x8xf16> into tensor<16x8xf32> -> tensor<16x8xf32>
  func.return
}

// -----

func.func @main(%q: tensor<16x8xf16>, %k: tensor<24x8xf16>, %sink: tensor<16xf32>, %e: tensor<16x8xf32>) {
  // CHECK: the sink cannot depend on m, n, d, e: its map is (d0, d1, d2, d3) -> (d0)
  %0 = schedule.attention %q, %k, %k sink %sink into %e loops = [16, 24, 8, 8] maps = [affine_map<(d0, d1, d2, d3) -> (d0, d2)>, affine_map<(d0, d1, d2, d3) -> (d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3)>, affine_map<(d0, d1, d2, d3) -> (d0)>] scale = 1.0 : tensor<16x8xf16>, tensor<24x8xf16>, tensor<24x8xf16> sink tensor<16xf32> into tensor<16x8xf32> -> tensor<16x8xf32>
  func.return
}

// -----

func.func @main(%q: tensor<16x8xf16>, %k: tensor<24x8xf16>, %e: tensor<16x8xf32>) {
  // CHECK: the map (d0, d1, d2, d3) -> (d1, d2) of k leads outside of tensor<24x8xf16>
  %0 = schedule.attention %q, %k, %k into %e loops = [16, 25, 8, 8] maps = [affine_map<(m, n, d, e) -> (m, d)>, affine_map<(m, n, d, e) -> (n, d)>, affine_map<(m, n, d, e) -> (n, e)>, affine_map<(m, n, d, e) -> (m, e)>] scale = 1.0 : tensor<16x8xf16>, tensor<24x8xf16>, tensor<24x8xf16> into tensor<16x8xf32> -> tensor<16x8xf32>
  func.return
}

// -----

func.func @main(%q: tensor<16x8xf16>, %k: tensor<24x8xf16>, %e: tensor<16x8xf32>) {
  // CHECK: maps must have one map for each operand and the result
  %0 = schedule.attention %q, %k, %k into %e loops = [16, 24, 8, 8] maps = [affine_map<(m, n, d, e) -> (m, d)>] scale = 1.0 : tensor<16x8xf16>, tensor<24x8xf16>, tensor<24x8xf16> into tensor<16x8xf32> -> tensor<16x8xf32>
  func.return
}

// -----

// CHECK: query_tile = 20 is not a multiple of 16 (subgroups x rows of the instruction): use 16
"test.op"() {schedule = #schedule.attention<query_tile = 20, key_tile = 8, subgroups = 2, instruction = coopmat 8x8x8>} : () -> ()

// -----

// CHECK: rescale is never, not one of always, seldom
"test.op"() {schedule = #schedule.attention<query_tile = 16, key_tile = 8, subgroups = 2, instruction = coopmat 8x8x8, rescale = never>} : () -> ()

// -----

// CHECK: schedule.attention: 'tile' is not one of query_tile, key_tile, subgroups, instruction, q, k, v, rescale
"test.op"() {schedule = #schedule.attention<tile = 16>} : () -> ()

// -----

// CHECK: schedule.attention needs key_tile
"test.op"() {schedule = #schedule.attention<query_tile = 16, subgroups = 2, instruction = coopmat 8x8x8>} : () -> ()

// -----

// CHECK: subgroups = 3 is not a multiple of key_parts = 2
"test.op"() {schedule = #schedule.attention<query_tile = 16, key_tile = 8, subgroups = 3, instruction = coopmat 8x8x8, probabilities = registers, key_parts = 2>} : () -> ()

// -----

// CHECK: order = batch needs probabilities = registers
"test.op"() {schedule = #schedule.attention<query_tile = 16, key_tile = 8, subgroups = 2, instruction = coopmat 8x8x8, order = batch>} : () -> ()

// -----

// CHECK: query_tile = 24 is not a multiple of 16 (subgroups / key_parts x rows of the instruction): use 16
"test.op"() {schedule = #schedule.attention<query_tile = 24, key_tile = 8, subgroups = 4, instruction = coopmat 8x8x8, probabilities = registers, key_parts = 2>} : () -> ()
