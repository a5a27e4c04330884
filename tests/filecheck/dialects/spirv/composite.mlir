// RUN: XDSL_ROUNDTRIP
// Composites: construction, extraction, insertion and shuffles.

spirv.module Logical GLSL450 {
  spirv.func @composite(%v2f: vector<2xf32>, %f: f32, %vf: vector<4xf32>, %s: !spirv.struct<(f32, vector<4xf32>)>, %a: !spirv.array<4 x f32>, %cf: !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, %i: i32) "None" {
    // CHECK-LABEL: spirv.func @composite
    %0 = spirv.CompositeConstruct %v2f, %f, %f : (vector<2xf32>, f32, f32) -> vector<4xf32>
    // CHECK-NEXT: %0 = spirv.CompositeConstruct %v2f, %f, %f : (vector<2xf32>, f32, f32) -> vector<4xf32>
    %1 = spirv.CompositeConstruct %f, %vf : (f32, vector<4xf32>) -> !spirv.struct<(f32, vector<4xf32>)>
    // CHECK-NEXT: %1 = spirv.CompositeConstruct %f, %vf : (f32, vector<4xf32>) -> !spirv.struct<(f32, vector<4xf32>)>
    %2 = spirv.CompositeConstruct %f : (f32) -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %2 = spirv.CompositeConstruct %f : (f32) -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %3 = spirv.CompositeExtract %s[1 : i32, 2 : i32] : !spirv.struct<(f32, vector<4xf32>)>
    // CHECK-NEXT: %3 = spirv.CompositeExtract %s[1 : i32, 2 : i32] : !spirv.struct<(f32, vector<4xf32>)>
    %4 = spirv.CompositeExtract %a[3 : i32] : !spirv.array<4 x f32>
    // CHECK-NEXT: %4 = spirv.CompositeExtract %a[3 : i32] : !spirv.array<4 x f32>
    %5 = spirv.CompositeExtract %cf[0 : i32] : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %5 = spirv.CompositeExtract %cf[0 : i32] : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %6 = spirv.CompositeInsert %f, %s[0 : i32] : f32 into !spirv.struct<(f32, vector<4xf32>)>
    // CHECK-NEXT: %6 = spirv.CompositeInsert %f, %s[0 : i32] : f32 into !spirv.struct<(f32, vector<4xf32>)>
    %7 = spirv.CompositeInsert %f, %cf[1 : i32] : f32 into !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %7 = spirv.CompositeInsert %f, %cf[1 : i32] : f32 into !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %8 = spirv.VectorExtractDynamic %vf[%i] : vector<4xf32>, i32
    // CHECK-NEXT: %8 = spirv.VectorExtractDynamic %vf[%i] : vector<4xf32>, i32
    %9 = spirv.VectorInsertDynamic %f, %vf[%i] : vector<4xf32>, i32
    // CHECK-NEXT: %9 = spirv.VectorInsertDynamic %f, %vf[%i] : vector<4xf32>, i32
    %10 = spirv.VectorShuffle [0 : i32, 5 : i32, -1 : i32] %v2f, %vf : vector<2xf32>, vector<4xf32> -> vector<3xf32>
    // CHECK-NEXT: %10 = spirv.VectorShuffle [0 : i32, 5 : i32, -1 : i32] %v2f, %vf : vector<2xf32>, vector<4xf32> -> vector<3xf32>
    spirv.Return
  }
}

// -----

// EXTENSION: not in MLIR's dialect.

spirv.module Logical GLSL450 {
  spirv.func @composite_extensions(%s: !spirv.struct<(f32, vector<4xf32>)>) "None" {
    // CHECK-LABEL: spirv.func @composite_extensions
    %0 = spirv.CopyLogical %s : !spirv.struct<(f32, vector<4xf32>)> to !spirv.struct<(f32 [0], vector<4xf32> [16])>
    // CHECK-NEXT: %0 = spirv.CopyLogical %s : !spirv.struct<(f32, vector<4xf32>)> to !spirv.struct<(f32 [0], vector<4xf32> [16])>
    spirv.Return
  }
}
