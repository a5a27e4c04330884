// RUN: XDSL_ROUNDTRIP
// Arithmetic on scalars, vectors, matrices and cooperative matrices.

spirv.module Logical GLSL450 {
  spirv.func @arithmetic(%i: i32, %ci: !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>, %vi: vector<4xi32>, %f: f32, %cf: !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, %vh: vector<4xf16>, %vf: vector<4xf32>, %m: !spirv.matrix<3 x vector<3xf32>>, %v3f: vector<3xf32>, %vbf: vector<4xbf16>) "None" {
    // CHECK-LABEL: spirv.func @arithmetic
    %0 = spirv.IAdd %i, %i : i32
    // CHECK-NEXT: %0 = spirv.IAdd %i, %i : i32
    %1 = spirv.ISub %i, %i : i32
    // CHECK-NEXT: %1 = spirv.ISub %i, %i : i32
    %2 = spirv.IMul %i, %i : i32
    // CHECK-NEXT: %2 = spirv.IMul %i, %i : i32
    %3 = spirv.SDiv %i, %i : i32
    // CHECK-NEXT: %3 = spirv.SDiv %i, %i : i32
    %4 = spirv.UDiv %i, %i : i32
    // CHECK-NEXT: %4 = spirv.UDiv %i, %i : i32
    %5 = spirv.SRem %i, %i : i32
    // CHECK-NEXT: %5 = spirv.SRem %i, %i : i32
    %6 = spirv.SMod %i, %i : i32
    // CHECK-NEXT: %6 = spirv.SMod %i, %i : i32
    %7 = spirv.UMod %i, %i : i32
    // CHECK-NEXT: %7 = spirv.UMod %i, %i : i32
    %8 = spirv.IAdd %ci, %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %8 = spirv.IAdd %ci, %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    %9 = spirv.ISub %ci, %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %9 = spirv.ISub %ci, %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    %10 = spirv.IMul %ci, %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %10 = spirv.IMul %ci, %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    %11 = spirv.SDiv %ci, %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %11 = spirv.SDiv %ci, %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    %12 = spirv.UDiv %ci, %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %12 = spirv.UDiv %ci, %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    %13 = spirv.IAdd %vi, %vi : vector<4xi32>
    // CHECK-NEXT: %13 = spirv.IAdd %vi, %vi : vector<4xi32>
    %14 = spirv.FAdd %f, %f : f32
    // CHECK-NEXT: %14 = spirv.FAdd %f, %f : f32
    %15 = spirv.FSub %f, %f : f32
    // CHECK-NEXT: %15 = spirv.FSub %f, %f : f32
    %16 = spirv.FMul %f, %f : f32
    // CHECK-NEXT: %16 = spirv.FMul %f, %f : f32
    %17 = spirv.FDiv %f, %f : f32
    // CHECK-NEXT: %17 = spirv.FDiv %f, %f : f32
    %18 = spirv.FRem %f, %f : f32
    // CHECK-NEXT: %18 = spirv.FRem %f, %f : f32
    %19 = spirv.FMod %f, %f : f32
    // CHECK-NEXT: %19 = spirv.FMod %f, %f : f32
    %20 = spirv.FAdd %cf, %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %20 = spirv.FAdd %cf, %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %21 = spirv.FSub %cf, %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %21 = spirv.FSub %cf, %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %22 = spirv.FMul %cf, %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %22 = spirv.FMul %cf, %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %23 = spirv.FDiv %cf, %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %23 = spirv.FDiv %cf, %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %24 = spirv.FMul %vh, %vh : vector<4xf16>
    // CHECK-NEXT: %24 = spirv.FMul %vh, %vh : vector<4xf16>
    %25 = spirv.SNegate %i : i32
    // CHECK-NEXT: %25 = spirv.SNegate %i : i32
    %26 = spirv.FNegate %vf : vector<4xf32>
    // CHECK-NEXT: %26 = spirv.FNegate %vf : vector<4xf32>
    %27 = spirv.SNegate %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %27 = spirv.SNegate %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    %28 = spirv.FNegate %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %28 = spirv.FNegate %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %29 = spirv.IAddCarry %i, %i : !spirv.struct<(i32, i32)>
    // CHECK-NEXT: %29 = spirv.IAddCarry %i, %i : !spirv.struct<(i32, i32)>
    %30 = spirv.ISubBorrow %i, %i : !spirv.struct<(i32, i32)>
    // CHECK-NEXT: %30 = spirv.ISubBorrow %i, %i : !spirv.struct<(i32, i32)>
    %31 = spirv.SMulExtended %i, %i : !spirv.struct<(i32, i32)>
    // CHECK-NEXT: %31 = spirv.SMulExtended %i, %i : !spirv.struct<(i32, i32)>
    %32 = spirv.UMulExtended %i, %i : !spirv.struct<(i32, i32)>
    // CHECK-NEXT: %32 = spirv.UMulExtended %i, %i : !spirv.struct<(i32, i32)>
    %33 = spirv.VectorTimesScalar %vf, %f : (vector<4xf32>, f32) -> vector<4xf32>
    // CHECK-NEXT: %33 = spirv.VectorTimesScalar %vf, %f : (vector<4xf32>, f32) -> vector<4xf32>
    %34 = spirv.MatrixTimesScalar %m, %f : !spirv.matrix<3 x vector<3xf32>>, f32
    // CHECK-NEXT: %34 = spirv.MatrixTimesScalar %m, %f : !spirv.matrix<3 x vector<3xf32>>, f32
    %35 = spirv.MatrixTimesScalar %cf, %f : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, f32
    // CHECK-NEXT: %35 = spirv.MatrixTimesScalar %cf, %f : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, f32
    %36 = spirv.VectorTimesMatrix %v3f, %m : vector<3xf32>, !spirv.matrix<3 x vector<3xf32>> -> vector<3xf32>
    // CHECK-NEXT: %36 = spirv.VectorTimesMatrix %v3f, %m : vector<3xf32>, !spirv.matrix<3 x vector<3xf32>> -> vector<3xf32>
    %37 = spirv.MatrixTimesVector %m, %v3f : !spirv.matrix<3 x vector<3xf32>>, vector<3xf32> -> vector<3xf32>
    // CHECK-NEXT: %37 = spirv.MatrixTimesVector %m, %v3f : !spirv.matrix<3 x vector<3xf32>>, vector<3xf32> -> vector<3xf32>
    %38 = spirv.MatrixTimesMatrix %m, %m : !spirv.matrix<3 x vector<3xf32>>, !spirv.matrix<3 x vector<3xf32>> -> !spirv.matrix<3 x vector<3xf32>>
    // CHECK-NEXT: %38 = spirv.MatrixTimesMatrix %m, %m : !spirv.matrix<3 x vector<3xf32>>, !spirv.matrix<3 x vector<3xf32>> -> !spirv.matrix<3 x vector<3xf32>>
    %39 = spirv.Transpose %m : !spirv.matrix<3 x vector<3xf32>> -> !spirv.matrix<3 x vector<3xf32>>
    // CHECK-NEXT: %39 = spirv.Transpose %m : !spirv.matrix<3 x vector<3xf32>> -> !spirv.matrix<3 x vector<3xf32>>
    %40 = spirv.Dot %vf, %vf : vector<4xf32> -> f32
    // CHECK-NEXT: %40 = spirv.Dot %vf, %vf : vector<4xf32> -> f32
    %41 = spirv.Dot %vbf, %vbf : vector<4xbf16> -> bf16
    // CHECK-NEXT: %41 = spirv.Dot %vbf, %vbf : vector<4xbf16> -> bf16
    spirv.Return
  }
}

// -----

// EXTENSION: not in MLIR's dialect.

spirv.module Logical GLSL450 {
  spirv.func @arithmetic_extensions(%v3f: vector<3xf32>, %ci: !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>, %i: i32) "None" {
    // CHECK-LABEL: spirv.func @arithmetic_extensions
    %0 = spirv.OuterProduct %v3f, %v3f : vector<3xf32>, vector<3xf32> -> !spirv.matrix<3 x vector<3xf32>>
    // CHECK-NEXT: %0 = spirv.OuterProduct %v3f, %v3f : vector<3xf32>, vector<3xf32> -> !spirv.matrix<3 x vector<3xf32>>
    %1 = spirv.MatrixTimesScalar %ci, %i : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>, i32
    // CHECK-NEXT: %1 = spirv.MatrixTimesScalar %ci, %i : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>, i32
    spirv.Return
  }
}
