// RUN: XDSL_ROUNDTRIP

spirv.module Logical Vulkan {
  spirv.SpecConstant @x spec_id(0) = 2.5 : f32
  spirv.EXT.SpecConstantCompositeReplicate @v (@x) : vector<4xf32>
  spirv.EXT.SpecConstantCompositeReplicate @a (@x) : !spirv.array<8 x f32>
  spirv.func @constants() "None" {
    %0 = spirv.EXT.ConstantCompositeReplicate [1 : i32] : vector<2xi32>
    %1 = spirv.EXT.ConstantCompositeReplicate [1.5 : f32] : !spirv.array<300 x f32>
    %2 = spirv.EXT.ConstantCompositeReplicate [dense<[1, 2]> : vector<2xi32>] : !spirv.array<3 x vector<2xi32>>
    %3 = spirv.EXT.ConstantCompositeReplicate [3 : i32] : !spirv.array<2 x !spirv.array<3 x vector<2xi32>>>
    %4 = spirv.IAdd %0, %0 : vector<2xi32>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @constants
  spirv.ExecutionMode @constants "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.SpecConstant @x spec_id(0) = 2.500000e+00 : f32
// CHECK-NEXT:     spirv.EXT.SpecConstantCompositeReplicate @v (@x) : vector<4xf32>
// CHECK-NEXT:     spirv.EXT.SpecConstantCompositeReplicate @a (@x) : !spirv.array<8 x f32>
// CHECK-NEXT:     spirv.func @constants() "None" {
// CHECK-NEXT:       %0 = spirv.EXT.ConstantCompositeReplicate [1 : i32] : vector<2xi32>
// CHECK-NEXT:       %1 = spirv.EXT.ConstantCompositeReplicate [1.500000e+00 : f32] : !spirv.array<300 x f32>
// CHECK-NEXT:       %2 = spirv.EXT.ConstantCompositeReplicate [dense<[1, 2]> : vector<2xi32>] : !spirv.array<3 x vector<2xi32>>
// CHECK-NEXT:       %3 = spirv.EXT.ConstantCompositeReplicate [3 : i32] : !spirv.array<2 x !spirv.array<3 x vector<2xi32>>>
// CHECK-NEXT:       %4 = spirv.IAdd %0, %0 : vector<2xi32>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @constants
// CHECK-NEXT:     spirv.ExecutionMode @constants "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: values replicated at run time, and into cooperative matrices.
spirv.module Logical Vulkan {
  spirv.SpecConstant @x spec_id(0) = 2.5 : f32
  spirv.EXT.SpecConstantCompositeReplicate @v (@x) : vector<4xf32>
  spirv.EXT.SpecConstantCompositeReplicate @m (@x) : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
  spirv.func @values() "None" {
    %0 = spirv.mlir.referenceof @x : f32
    %1 = spirv.EXT.CompositeConstructReplicate %0 : f32 -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %2 = spirv.EXT.CompositeConstructReplicate %0 : f32 -> vector<3xf32>
    %3 = spirv.EXT.CompositeConstructReplicate %2 : vector<3xf32> -> !spirv.array<5 x vector<3xf32>>
    %4 = spirv.EXT.ConstantCompositeReplicate [1.5 : f32] : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %6 = spirv.mlir.referenceof @v : vector<4xf32>
    %5 = spirv.mlir.referenceof @m : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @values
  spirv.ExecutionMode @values "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.SpecConstant @x spec_id(0) = 2.500000e+00 : f32
// CHECK-NEXT:     spirv.EXT.SpecConstantCompositeReplicate @v (@x) : vector<4xf32>
// CHECK-NEXT:     spirv.EXT.SpecConstantCompositeReplicate @m (@x) : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NEXT:     spirv.func @values() "None" {
// CHECK-NEXT:       %0 = spirv.mlir.referenceof @x : f32
// CHECK-NEXT:       %1 = spirv.EXT.CompositeConstructReplicate %0 : f32 -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NEXT:       %2 = spirv.EXT.CompositeConstructReplicate %0 : f32 -> vector<3xf32>
// CHECK-NEXT:       %3 = spirv.EXT.CompositeConstructReplicate %2 : vector<3xf32> -> !spirv.array<5 x vector<3xf32>>
// CHECK-NEXT:       %4 = spirv.EXT.ConstantCompositeReplicate [1.500000e+00 : f32] : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NEXT:       %5 = spirv.mlir.referenceof @v : vector<4xf32>
// CHECK-NEXT:       %6 = spirv.mlir.referenceof @m : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @values
// CHECK-NEXT:     spirv.ExecutionMode @values "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: constant arrays as words.
// SINCE: SPIRV-Tools 2026.2
spirv.module Logical Vulkan {
  spirv.KHR.SpecConstantData @table [1, 2, 3] : !spirv.array<3 x i32> {spec_id = 7 : i32}
  spirv.func @data() "None" {
    %0 = spirv.KHR.ConstantData [1, -1082130432] : !spirv.array<2 x i32>
    %1 = spirv.KHR.ConstantData [50462976, 4] : !spirv.array<5 x i8>
    %2 = spirv.mlir.referenceof @table : !spirv.array<3 x i32>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @data
  spirv.ExecutionMode @data "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.KHR.SpecConstantData @table [1, 2, 3] : !spirv.array<3 x i32> {spec_id = 7 : i32}
// CHECK-NEXT:     spirv.func @data() "None" {
// CHECK-NEXT:       %0 = spirv.KHR.ConstantData [1, -1082130432] : !spirv.array<2 x i32>
// CHECK-NEXT:       %1 = spirv.KHR.ConstantData [50462976, 4] : !spirv.array<5 x i8>
// CHECK-NEXT:       %2 = spirv.mlir.referenceof @table : !spirv.array<3 x i32>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @data
// CHECK-NEXT:     spirv.ExecutionMode @data "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }
