// RUN: xdsl-opt %s -p 'assign-schedule{target="nvidia-h200"}' --verify-diagnostics --split-input-file | filecheck %s
// CM-29: what sizes and types a device takes is the client API's. The dialect takes any; a schedule is
// checked against the target's cooperative-matrix property table.

%a, %b, %c = "test.op"() : () -> (!spirv.coopmatrix<7x5xf16, Subgroup, MatrixA>, !spirv.coopmatrix<5x3xi8, Subgroup, MatrixB>, !spirv.coopmatrix<7x3xf64, Subgroup, MatrixAcc>)
%0 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<7x5xf16, Subgroup, MatrixA>, !spirv.coopmatrix<5x3xi8, Subgroup, MatrixB> -> !spirv.coopmatrix<7x3xf64, Subgroup, MatrixAcc>
// CHECK: spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c : !spirv.coopmatrix<7x5xf16, Subgroup, MatrixA>, !spirv.coopmatrix<5x3xi8, Subgroup, MatrixB> -> !spirv.coopmatrix<7x3xf64, Subgroup, MatrixAcc>
// CHECK-NOT: CM-29:
// CHECK: {{^//}} -----

// -----

func.func @listed(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<64x64xf16>, tensor<64x64xf16>) outs(%c : tensor<64x64xf32>) attrs = {schedule = #schedule.contraction<workgroup_tile = [32, 32, 16], subgroups = [1, 1], instruction = coopmat 16x16x16, a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 8>>} {
  ^bb0(%x: f16, %y: f16, %z: f32):
    %1 = arith.extf %x : f16 to f32
    %2 = arith.extf %y : f16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %z, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<64x64xf32>
  func.return %0 : tensor<64x64xf32>
}
// CHECK: func.func @listed
// CHECK: instruction = coopmat 16x16x16
// CHECK-NOT: CM-29:
// CHECK: {{^//}} -----

// -----

func.func @unlisted(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<64x64xf16>, tensor<64x64xf16>) outs(%c : tensor<64x64xf32>) attrs = {schedule = #schedule.contraction<workgroup_tile = [32, 32, 16], subgroups = [1, 1], instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 8>>} {
  ^bb0(%x: f16, %y: f16, %z: f32):
    %1 = arith.extf %x : f16 to f32
    %2 = arith.extf %y : f16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %z, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<64x64xf32>
  func.return %0 : tensor<64x64xf32>
}
// CHECK: CM-29: nvidia-h200 has no cooperative matrices 8x8x8 of f16 x f16 -> f32; it has {{.*}}16x16x16
