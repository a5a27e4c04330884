// RUN: XDSL_ROUNDTRIP
// Comparisons, Boolean logic and selection.

spirv.module Logical GLSL450 {
  spirv.func @logic(%i: i32, %vi: vector<4xi32>, %f: f32, %vf: vector<4xf32>, %b: i1, %vb: vector<4xi1>) "None" {
    // CHECK-LABEL: spirv.func @logic
    %0 = spirv.IEqual %i, %i : i32
    // CHECK-NEXT: %0 = spirv.IEqual %i, %i : i32
    %1 = spirv.INotEqual %i, %i : i32
    // CHECK-NEXT: %1 = spirv.INotEqual %i, %i : i32
    %2 = spirv.UGreaterThan %i, %i : i32
    // CHECK-NEXT: %2 = spirv.UGreaterThan %i, %i : i32
    %3 = spirv.SGreaterThan %i, %i : i32
    // CHECK-NEXT: %3 = spirv.SGreaterThan %i, %i : i32
    %4 = spirv.UGreaterThanEqual %i, %i : i32
    // CHECK-NEXT: %4 = spirv.UGreaterThanEqual %i, %i : i32
    %5 = spirv.SGreaterThanEqual %i, %i : i32
    // CHECK-NEXT: %5 = spirv.SGreaterThanEqual %i, %i : i32
    %6 = spirv.ULessThan %i, %i : i32
    // CHECK-NEXT: %6 = spirv.ULessThan %i, %i : i32
    %7 = spirv.SLessThan %i, %i : i32
    // CHECK-NEXT: %7 = spirv.SLessThan %i, %i : i32
    %8 = spirv.ULessThanEqual %i, %i : i32
    // CHECK-NEXT: %8 = spirv.ULessThanEqual %i, %i : i32
    %9 = spirv.SLessThanEqual %i, %i : i32
    // CHECK-NEXT: %9 = spirv.SLessThanEqual %i, %i : i32
    %10 = spirv.SLessThan %vi, %vi : vector<4xi32>
    // CHECK-NEXT: %10 = spirv.SLessThan %vi, %vi : vector<4xi32>
    %11 = spirv.FOrdEqual %f, %f : f32
    // CHECK-NEXT: %11 = spirv.FOrdEqual %f, %f : f32
    %12 = spirv.FOrdNotEqual %f, %f : f32
    // CHECK-NEXT: %12 = spirv.FOrdNotEqual %f, %f : f32
    %13 = spirv.FOrdLessThan %f, %f : f32
    // CHECK-NEXT: %13 = spirv.FOrdLessThan %f, %f : f32
    %14 = spirv.FOrdGreaterThan %f, %f : f32
    // CHECK-NEXT: %14 = spirv.FOrdGreaterThan %f, %f : f32
    %15 = spirv.FOrdLessThanEqual %f, %f : f32
    // CHECK-NEXT: %15 = spirv.FOrdLessThanEqual %f, %f : f32
    %16 = spirv.FOrdGreaterThanEqual %f, %f : f32
    // CHECK-NEXT: %16 = spirv.FOrdGreaterThanEqual %f, %f : f32
    %17 = spirv.FUnordEqual %f, %f : f32
    // CHECK-NEXT: %17 = spirv.FUnordEqual %f, %f : f32
    %18 = spirv.FUnordNotEqual %f, %f : f32
    // CHECK-NEXT: %18 = spirv.FUnordNotEqual %f, %f : f32
    %19 = spirv.FUnordLessThan %f, %f : f32
    // CHECK-NEXT: %19 = spirv.FUnordLessThan %f, %f : f32
    %20 = spirv.FUnordGreaterThan %f, %f : f32
    // CHECK-NEXT: %20 = spirv.FUnordGreaterThan %f, %f : f32
    %21 = spirv.FUnordLessThanEqual %f, %f : f32
    // CHECK-NEXT: %21 = spirv.FUnordLessThanEqual %f, %f : f32
    %22 = spirv.FUnordGreaterThanEqual %f, %f : f32
    // CHECK-NEXT: %22 = spirv.FUnordGreaterThanEqual %f, %f : f32
    %23 = spirv.FOrdLessThan %vf, %vf : vector<4xf32>
    // CHECK-NEXT: %23 = spirv.FOrdLessThan %vf, %vf : vector<4xf32>
    %24 = spirv.Ordered %f, %f : f32
    // CHECK-NEXT: %24 = spirv.Ordered %f, %f : f32
    %25 = spirv.Unordered %f, %f : f32
    // CHECK-NEXT: %25 = spirv.Unordered %f, %f : f32
    %26 = spirv.IsNan %f : f32
    // CHECK-NEXT: %26 = spirv.IsNan %f : f32
    %27 = spirv.IsInf %vf : vector<4xf32>
    // CHECK-NEXT: %27 = spirv.IsInf %vf : vector<4xf32>
    %28 = spirv.IsFinite %f : f32
    // CHECK-NEXT: %28 = spirv.IsFinite %f : f32
    %29 = spirv.LogicalEqual %b, %b : i1
    // CHECK-NEXT: %29 = spirv.LogicalEqual %b, %b : i1
    %30 = spirv.LogicalNotEqual %b, %b : i1
    // CHECK-NEXT: %30 = spirv.LogicalNotEqual %b, %b : i1
    %31 = spirv.LogicalOr %b, %b : i1
    // CHECK-NEXT: %31 = spirv.LogicalOr %b, %b : i1
    %32 = spirv.LogicalAnd %b, %b : i1
    // CHECK-NEXT: %32 = spirv.LogicalAnd %b, %b : i1
    %33 = spirv.LogicalNot %vb : vector<4xi1>
    // CHECK-NEXT: %33 = spirv.LogicalNot %vb : vector<4xi1>
    %34 = spirv.Select %b, %f, %f : i1, f32
    // CHECK-NEXT: %34 = spirv.Select %b, %f, %f : i1, f32
    %35 = spirv.Select %vb, %vf, %vf : vector<4xi1>, vector<4xf32>
    // CHECK-NEXT: %35 = spirv.Select %vb, %vf, %vf : vector<4xi1>, vector<4xf32>
    %36 = spirv.Select %b, %vf, %vf : i1, vector<4xf32>
    // CHECK-NEXT: %36 = spirv.Select %b, %vf, %vf : i1, vector<4xf32>
    spirv.Return
  }
}

// -----

// EXTENSION: not in MLIR's dialect.

spirv.module Logical GLSL450 {
  spirv.func @logic_extensions(%vb: vector<4xi1>, %f: f32) "None" {
    // CHECK-LABEL: spirv.func @logic_extensions
    %0 = spirv.Any %vb : vector<4xi1>
    // CHECK-NEXT: %0 = spirv.Any %vb : vector<4xi1>
    %1 = spirv.All %vb : vector<4xi1>
    // CHECK-NEXT: %1 = spirv.All %vb : vector<4xi1>
    %2 = spirv.IsNormal %f : f32
    // CHECK-NEXT: %2 = spirv.IsNormal %f : f32
    %3 = spirv.SignBitSet %f : f32
    // CHECK-NEXT: %3 = spirv.SignBitSet %f : f32
    spirv.Return
  }
}
