// RUN: XDSL_ROUNDTRIP
// GLSL.std.450.

spirv.module Logical GLSL450 {
  spirv.func @glsl(%f: f32, %v3f: vector<3xf32>, %vh: vector<4xf16>, %i: i32, %vi: vector<4xi32>, %v2f: vector<2xf32>, %vf: vector<4xf32>) "None" {
    // CHECK-LABEL: spirv.func @glsl
    %0 = spirv.GL.Round %f : f32
    // CHECK-NEXT: %0 = spirv.GL.Round %f : f32
    %1 = spirv.GL.RoundEven %f : f32
    // CHECK-NEXT: %1 = spirv.GL.RoundEven %f : f32
    %2 = spirv.GL.FAbs %f : f32
    // CHECK-NEXT: %2 = spirv.GL.FAbs %f : f32
    %3 = spirv.GL.FSign %f : f32
    // CHECK-NEXT: %3 = spirv.GL.FSign %f : f32
    %4 = spirv.GL.Floor %f : f32
    // CHECK-NEXT: %4 = spirv.GL.Floor %f : f32
    %5 = spirv.GL.Ceil %f : f32
    // CHECK-NEXT: %5 = spirv.GL.Ceil %f : f32
    %6 = spirv.GL.Fract %f : f32
    // CHECK-NEXT: %6 = spirv.GL.Fract %f : f32
    %7 = spirv.GL.Sin %f : f32
    // CHECK-NEXT: %7 = spirv.GL.Sin %f : f32
    %8 = spirv.GL.Cos %f : f32
    // CHECK-NEXT: %8 = spirv.GL.Cos %f : f32
    %9 = spirv.GL.Tan %f : f32
    // CHECK-NEXT: %9 = spirv.GL.Tan %f : f32
    %10 = spirv.GL.Asin %f : f32
    // CHECK-NEXT: %10 = spirv.GL.Asin %f : f32
    %11 = spirv.GL.Acos %f : f32
    // CHECK-NEXT: %11 = spirv.GL.Acos %f : f32
    %12 = spirv.GL.Atan %f : f32
    // CHECK-NEXT: %12 = spirv.GL.Atan %f : f32
    %13 = spirv.GL.Sinh %f : f32
    // CHECK-NEXT: %13 = spirv.GL.Sinh %f : f32
    %14 = spirv.GL.Cosh %f : f32
    // CHECK-NEXT: %14 = spirv.GL.Cosh %f : f32
    %15 = spirv.GL.Tanh %f : f32
    // CHECK-NEXT: %15 = spirv.GL.Tanh %f : f32
    %16 = spirv.GL.Asinh %f : f32
    // CHECK-NEXT: %16 = spirv.GL.Asinh %f : f32
    %17 = spirv.GL.Acosh %f : f32
    // CHECK-NEXT: %17 = spirv.GL.Acosh %f : f32
    %18 = spirv.GL.Atanh %f : f32
    // CHECK-NEXT: %18 = spirv.GL.Atanh %f : f32
    %19 = spirv.GL.Exp %f : f32
    // CHECK-NEXT: %19 = spirv.GL.Exp %f : f32
    %20 = spirv.GL.Log %f : f32
    // CHECK-NEXT: %20 = spirv.GL.Log %f : f32
    %21 = spirv.GL.Exp2 %f : f32
    // CHECK-NEXT: %21 = spirv.GL.Exp2 %f : f32
    %22 = spirv.GL.Log2 %f : f32
    // CHECK-NEXT: %22 = spirv.GL.Log2 %f : f32
    %23 = spirv.GL.Sqrt %f : f32
    // CHECK-NEXT: %23 = spirv.GL.Sqrt %f : f32
    %24 = spirv.GL.InverseSqrt %f : f32
    // CHECK-NEXT: %24 = spirv.GL.InverseSqrt %f : f32
    %25 = spirv.GL.Normalize %v3f : vector<3xf32>
    // CHECK-NEXT: %25 = spirv.GL.Normalize %v3f : vector<3xf32>
    %26 = spirv.GL.Exp %vh : vector<4xf16>
    // CHECK-NEXT: %26 = spirv.GL.Exp %vh : vector<4xf16>
    %27 = spirv.GL.SAbs %i : i32
    // CHECK-NEXT: %27 = spirv.GL.SAbs %i : i32
    %28 = spirv.GL.SSign %i : i32
    // CHECK-NEXT: %28 = spirv.GL.SSign %i : i32
    %29 = spirv.GL.FindILsb %i : i32
    // CHECK-NEXT: %29 = spirv.GL.FindILsb %i : i32
    %30 = spirv.GL.FindSMsb %i : i32
    // CHECK-NEXT: %30 = spirv.GL.FindSMsb %i : i32
    %31 = spirv.GL.FindUMsb %i : i32
    // CHECK-NEXT: %31 = spirv.GL.FindUMsb %i : i32
    %32 = spirv.GL.FMin %f, %f : f32
    // CHECK-NEXT: %32 = spirv.GL.FMin %f, %f : f32
    %33 = spirv.GL.FMax %f, %f : f32
    // CHECK-NEXT: %33 = spirv.GL.FMax %f, %f : f32
    %34 = spirv.GL.Pow %f, %f : f32
    // CHECK-NEXT: %34 = spirv.GL.Pow %f, %f : f32
    %35 = spirv.GL.Cross %v3f, %v3f : vector<3xf32>
    // CHECK-NEXT: %35 = spirv.GL.Cross %v3f, %v3f : vector<3xf32>
    %36 = spirv.GL.Reflect %v3f, %v3f : vector<3xf32>
    // CHECK-NEXT: %36 = spirv.GL.Reflect %v3f, %v3f : vector<3xf32>
    %37 = spirv.GL.UMin %vi, %vi : vector<4xi32>
    // CHECK-NEXT: %37 = spirv.GL.UMin %vi, %vi : vector<4xi32>
    %38 = spirv.GL.SMin %vi, %vi : vector<4xi32>
    // CHECK-NEXT: %38 = spirv.GL.SMin %vi, %vi : vector<4xi32>
    %39 = spirv.GL.UMax %vi, %vi : vector<4xi32>
    // CHECK-NEXT: %39 = spirv.GL.UMax %vi, %vi : vector<4xi32>
    %40 = spirv.GL.SMax %vi, %vi : vector<4xi32>
    // CHECK-NEXT: %40 = spirv.GL.SMax %vi, %vi : vector<4xi32>
    %41 = spirv.GL.FClamp %f, %f, %f : f32
    // CHECK-NEXT: %41 = spirv.GL.FClamp %f, %f, %f : f32
    %42 = spirv.GL.UClamp %i, %i, %i : i32
    // CHECK-NEXT: %42 = spirv.GL.UClamp %i, %i, %i : i32
    %43 = spirv.GL.SClamp %i, %i, %i : i32
    // CHECK-NEXT: %43 = spirv.GL.SClamp %i, %i, %i : i32
    %44 = spirv.GL.Fma %f, %f, %f : f32
    // CHECK-NEXT: %44 = spirv.GL.Fma %f, %f, %f : f32
    %45 = spirv.GL.FMix %f : f32, %f : f32, %f : f32 -> f32
    // CHECK-NEXT: %45 = spirv.GL.FMix %f : f32, %f : f32, %f : f32 -> f32
    %46 = spirv.GL.Ldexp %f : f32, %i : i32 -> f32
    // CHECK-NEXT: %46 = spirv.GL.Ldexp %f : f32, %i : i32 -> f32
    %47 = spirv.GL.FrexpStruct %f : f32 -> !spirv.struct<(f32, i32)>
    // CHECK-NEXT: %47 = spirv.GL.FrexpStruct %f : f32 -> !spirv.struct<(f32, i32)>
    %48 = spirv.GL.Length %v3f : vector<3xf32> -> f32
    // CHECK-NEXT: %48 = spirv.GL.Length %v3f : vector<3xf32> -> f32
    %49 = spirv.GL.Distance %v3f, %v3f : vector<3xf32>, vector<3xf32> -> f32
    // CHECK-NEXT: %49 = spirv.GL.Distance %v3f, %v3f : vector<3xf32>, vector<3xf32> -> f32
    %50 = spirv.GL.PackHalf2x16 %v2f : vector<2xf32> -> i32
    // CHECK-NEXT: %50 = spirv.GL.PackHalf2x16 %v2f : vector<2xf32> -> i32
    %51 = spirv.GL.PackSnorm4x8 %vf : vector<4xf32> -> i32
    // CHECK-NEXT: %51 = spirv.GL.PackSnorm4x8 %vf : vector<4xf32> -> i32
    %52 = spirv.GL.UnpackHalf2x16 %i : i32 -> vector<2xf32>
    // CHECK-NEXT: %52 = spirv.GL.UnpackHalf2x16 %i : i32 -> vector<2xf32>
    %53 = spirv.GL.UnpackSnorm4x8 %i : i32 -> vector<4xf32>
    // CHECK-NEXT: %53 = spirv.GL.UnpackSnorm4x8 %i : i32 -> vector<4xf32>
    spirv.Return
  }
}

// -----

// EXTENSION: not in MLIR's dialect.

spirv.module Logical GLSL450 {
  spirv.func @glsl_extensions(%f: f32, %v3f: vector<3xf32>, %vf: vector<4xf32>, %v2f: vector<2xf32>, %v2i: vector<2xi32>, %i: i32, %d: f64, %m: !spirv.matrix<3 x vector<3xf32>>) "None" {
    // CHECK-LABEL: spirv.func @glsl_extensions
    %0 = spirv.GL.Trunc %f : f32
    // CHECK-NEXT: %0 = spirv.GL.Trunc %f : f32
    %1 = spirv.GL.Radians %f : f32
    // CHECK-NEXT: %1 = spirv.GL.Radians %f : f32
    %2 = spirv.GL.Degrees %f : f32
    // CHECK-NEXT: %2 = spirv.GL.Degrees %f : f32
    %3 = spirv.GL.Atan2 %f, %f : f32
    // CHECK-NEXT: %3 = spirv.GL.Atan2 %f, %f : f32
    %4 = spirv.GL.Step %f, %f : f32
    // CHECK-NEXT: %4 = spirv.GL.Step %f, %f : f32
    %5 = spirv.GL.SmoothStep %f, %f, %f : f32
    // CHECK-NEXT: %5 = spirv.GL.SmoothStep %f, %f, %f : f32
    %6 = spirv.GL.FaceForward %v3f, %v3f, %v3f : vector<3xf32>
    // CHECK-NEXT: %6 = spirv.GL.FaceForward %v3f, %v3f, %v3f : vector<3xf32>
    %7 = spirv.GL.NMin %f, %f : f32
    // CHECK-NEXT: %7 = spirv.GL.NMin %f, %f : f32
    %8 = spirv.GL.NMax %f, %f : f32
    // CHECK-NEXT: %8 = spirv.GL.NMax %f, %f : f32
    %9 = spirv.GL.NClamp %f, %f, %f : f32
    // CHECK-NEXT: %9 = spirv.GL.NClamp %f, %f, %f : f32
    %10 = spirv.GL.ModfStruct %f : f32 -> !spirv.struct<(f32, f32)>
    // CHECK-NEXT: %10 = spirv.GL.ModfStruct %f : f32 -> !spirv.struct<(f32, f32)>
    %whole = spirv.Variable : !spirv.ptr<f32, Function>
    %exponent = spirv.Variable : !spirv.ptr<si32, Function>
    %fraction = spirv.GL.Modf %f : f32, %whole : !spirv.ptr<f32, Function> -> f32
    // CHECK: %{{.*}} = spirv.GL.Modf %f : f32, %{{.*}} : !spirv.ptr<f32, Function> -> f32
    %significand = spirv.GL.Frexp %f : f32, %exponent : !spirv.ptr<si32, Function> -> f32
    // CHECK-NEXT: %{{.*}} = spirv.GL.Frexp %f : f32, %{{.*}} : !spirv.ptr<si32, Function> -> f32
    %refracted = spirv.GL.Refract %v3f : vector<3xf32>, %v3f : vector<3xf32>, %f : f32 -> vector<3xf32>
    // CHECK-NEXT: %{{.*}} = spirv.GL.Refract %v3f : vector<3xf32>, %v3f : vector<3xf32>, %f : f32 -> vector<3xf32>
    %11 = spirv.GL.PackUnorm4x8 %vf : vector<4xf32> -> i32
    // CHECK-NEXT: %11 = spirv.GL.PackUnorm4x8 %vf : vector<4xf32> -> i32
    %12 = spirv.GL.PackSnorm2x16 %v2f : vector<2xf32> -> i32
    // CHECK-NEXT: %12 = spirv.GL.PackSnorm2x16 %v2f : vector<2xf32> -> i32
    %13 = spirv.GL.PackUnorm2x16 %v2f : vector<2xf32> -> i32
    // CHECK-NEXT: %13 = spirv.GL.PackUnorm2x16 %v2f : vector<2xf32> -> i32
    %14 = spirv.GL.PackDouble2x32 %v2i : vector<2xi32> -> f64
    // CHECK-NEXT: %14 = spirv.GL.PackDouble2x32 %v2i : vector<2xi32> -> f64
    %15 = spirv.GL.UnpackUnorm4x8 %i : i32 -> vector<4xf32>
    // CHECK-NEXT: %15 = spirv.GL.UnpackUnorm4x8 %i : i32 -> vector<4xf32>
    %16 = spirv.GL.UnpackSnorm2x16 %i : i32 -> vector<2xf32>
    // CHECK-NEXT: %16 = spirv.GL.UnpackSnorm2x16 %i : i32 -> vector<2xf32>
    %17 = spirv.GL.UnpackUnorm2x16 %i : i32 -> vector<2xf32>
    // CHECK-NEXT: %17 = spirv.GL.UnpackUnorm2x16 %i : i32 -> vector<2xf32>
    %18 = spirv.GL.UnpackDouble2x32 %d : f64 -> vector<2xi32>
    // CHECK-NEXT: %18 = spirv.GL.UnpackDouble2x32 %d : f64 -> vector<2xi32>
    %19 = spirv.GL.Determinant %m : !spirv.matrix<3 x vector<3xf32>> -> f32
    // CHECK-NEXT: %19 = spirv.GL.Determinant %m : !spirv.matrix<3 x vector<3xf32>> -> f32
    %20 = spirv.GL.MatrixInverse %m : !spirv.matrix<3 x vector<3xf32>>
    // CHECK-NEXT: %20 = spirv.GL.MatrixInverse %m : !spirv.matrix<3 x vector<3xf32>>
    spirv.Return
  }
}
