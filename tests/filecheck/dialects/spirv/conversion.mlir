// RUN: XDSL_ROUNDTRIP
// Numerical conversions, bitcasts and pointer casts.

spirv.module Logical GLSL450 {
  spirv.func @conversion(%f: f32, %vf: vector<4xf32>, %i: i32, %l: i64, %h: f16, %bf: bf16, %vl: vector<4xi64>, %cf: !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, %ci: !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>, %v2i: vector<2xi32>, %pc: !spirv.ptr<f32, CrossWorkgroup>, %pg: !spirv.ptr<f32, Generic>) "None" {
    // CHECK-LABEL: spirv.func @conversion
    %0 = spirv.ConvertFToS %f : f32 to i32
    // CHECK-NEXT: %0 = spirv.ConvertFToS %f : f32 to i32
    %1 = spirv.ConvertFToU %vf : vector<4xf32> to vector<4xi32>
    // CHECK-NEXT: %1 = spirv.ConvertFToU %vf : vector<4xf32> to vector<4xi32>
    %2 = spirv.ConvertSToF %i : i32 to f16
    // CHECK-NEXT: %2 = spirv.ConvertSToF %i : i32 to f16
    %3 = spirv.ConvertUToF %l : i64 to f32
    // CHECK-NEXT: %3 = spirv.ConvertUToF %l : i64 to f32
    %4 = spirv.FConvert %h : f16 to f32
    // CHECK-NEXT: %4 = spirv.FConvert %h : f16 to f32
    %5 = spirv.FConvert %bf : bf16 to f32
    // CHECK-NEXT: %5 = spirv.FConvert %bf : bf16 to f32
    %6 = spirv.SConvert %i : i32 to i64
    // CHECK-NEXT: %6 = spirv.SConvert %i : i32 to i64
    %7 = spirv.UConvert %vl : vector<4xi64> to vector<4xi32>
    // CHECK-NEXT: %7 = spirv.UConvert %vl : vector<4xi64> to vector<4xi32>
    %8 = spirv.FConvert %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
    // CHECK-NEXT: %8 = spirv.FConvert %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
    %9 = spirv.ConvertSToF %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %9 = spirv.ConvertSToF %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %10 = spirv.ConvertUToF %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %10 = spirv.ConvertUToF %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %11 = spirv.ConvertFToS %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %11 = spirv.ConvertFToS %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    %12 = spirv.ConvertFToU %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %12 = spirv.ConvertFToU %cf : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
    %13 = spirv.SConvert %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xi8, Subgroup, MatrixAcc>
    // CHECK-NEXT: %13 = spirv.SConvert %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xi8, Subgroup, MatrixAcc>
    %14 = spirv.UConvert %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xi8, Subgroup, MatrixAcc>
    // CHECK-NEXT: %14 = spirv.UConvert %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xi8, Subgroup, MatrixAcc>
    %15 = spirv.Bitcast %v2i : vector<2xi32> to vector<2xf32>
    // CHECK-NEXT: %15 = spirv.Bitcast %v2i : vector<2xi32> to vector<2xf32>
    %16 = spirv.Bitcast %l : i64 to vector<2xf32>
    // CHECK-NEXT: %16 = spirv.Bitcast %l : i64 to vector<2xf32>
    %17 = spirv.PtrCastToGeneric %pc : !spirv.ptr<f32, CrossWorkgroup> to !spirv.ptr<f32, Generic>
    // CHECK-NEXT: %17 = spirv.PtrCastToGeneric %pc : !spirv.ptr<f32, CrossWorkgroup> to !spirv.ptr<f32, Generic>
    %18 = spirv.GenericCastToPtr %pg : !spirv.ptr<f32, Generic> to !spirv.ptr<f32, CrossWorkgroup>
    // CHECK-NEXT: %18 = spirv.GenericCastToPtr %pg : !spirv.ptr<f32, Generic> to !spirv.ptr<f32, CrossWorkgroup>
    spirv.Return
  }
}

// -----

// EXTENSION: not in MLIR's dialect, or there for OpenCL's addressing only.

spirv.module Logical GLSL450 {
  spirv.func @conversion_extensions(%f: f32, %l: i64, %pp: !spirv.ptr<i32, PhysicalStorageBuffer>, %ci: !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>) "None" {
    // CHECK-LABEL: spirv.func @conversion_extensions
    %0 = spirv.QuantizeToF16 %f : f32
    // CHECK-NEXT: %0 = spirv.QuantizeToF16 %f : f32
    %1 = spirv.ConvertUToPtr %l : i64 to !spirv.ptr<i32, PhysicalStorageBuffer>
    // CHECK-NEXT: %1 = spirv.ConvertUToPtr %l : i64 to !spirv.ptr<i32, PhysicalStorageBuffer>
    %2 = spirv.ConvertPtrToU %pp : !spirv.ptr<i32, PhysicalStorageBuffer> to i64
    // CHECK-NEXT: %2 = spirv.ConvertPtrToU %pp : !spirv.ptr<i32, PhysicalStorageBuffer> to i64
    %3 = spirv.Bitcast %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xui32, Subgroup, MatrixAcc>
    // CHECK-NEXT: %3 = spirv.Bitcast %ci : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xui32, Subgroup, MatrixAcc>
    spirv.Return
  }
}

// -----

spirv.module Physical64 OpenCL requires #spirv.vce<v1.6, [Kernel, Addresses, Int64], []> {
  spirv.func @conversion_of_pointers(%p: !spirv.ptr<i32, CrossWorkgroup>) "None" {
    // CHECK-LABEL: spirv.func @conversion_of_pointers
    %0 = spirv.ConvertPtrToU %p : !spirv.ptr<i32, CrossWorkgroup> to i64
    // CHECK-NEXT: %0 = spirv.ConvertPtrToU %p : !spirv.ptr<i32, CrossWorkgroup> to i64
    %1 = spirv.ConvertUToPtr %0 : i64 to !spirv.ptr<i32, CrossWorkgroup>
    // CHECK-NEXT: %1 = spirv.ConvertUToPtr %0 : i64 to !spirv.ptr<i32, CrossWorkgroup>
    spirv.Return
  }
}
