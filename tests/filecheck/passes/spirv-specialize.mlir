// RUN: xdsl-opt %s -p 'spirv-specialize{values="0=32","tile=8","scale=0.5"}' | filecheck %s
// RUN: xdsl-opt %s -p 'spirv-specialize{defaults=true}' | filecheck %s --check-prefix=ALL

spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, VulkanMemoryModel, CooperativeMatrixKHR], [SPV_KHR_cooperative_matrix]> {
  spirv.SpecConstant @width spec_id(0) = 16 : i32
  spirv.SpecConstant @also_width spec_id(0) = 16 : i32
  spirv.SpecConstant @tile spec_id(1) = 4 : i32
  spirv.SpecConstant @scale spec_id(2) = 1.000000e+00 : f32
  spirv.SpecConstant @kept spec_id(3) = true
  // CHECK:      requires
  // The initializer of a variable is a symbol, so the constant keeps its symbol.
  // CHECK-NEXT: spirv.RawGlobal @scale "OpConstant"(1056964608) : f32
  // CHECK-NEXT: spirv.SpecConstant @kept spec_id(3) = true
  // CHECK-NEXT: spirv.RawGlobal @size "OpConstantComposite"(const(32 : i32), const(8 : i32), const(1 : i32)) {built_in = "WorkgroupSize"} : vector<3xi32>
  // ALL:        requires
  // ALL-NEXT:   spirv.RawGlobal @scale "OpConstant"(1065353216) : f32
  // ALL-NEXT:   spirv.RawGlobal @size "OpConstantComposite"(const(16 : i32), const(4 : i32), const(1 : i32)) {built_in = "WorkgroupSize"} : vector<3xi32>
  spirv.RawGlobal @area "OpSpecConstantOp"("OpIMul", @width, @tile) : i32
  spirv.RawGlobal @padded "OpSpecConstantOp"("OpIAdd", @area, const(8 : i32)) : i32
  spirv.RawGlobal @size "OpSpecConstantComposite"(@width, @tile, const(1 : i32)) {built_in = "WorkgroupSize"} : vector<3xi32>

  spirv.RawGlobal @across "OpSpecConstantOp"("OpCompositeExtract", @size, 0) : i32

  // CHECK-NEXT: spirv.GlobalVariable @staged : !spirv.ptr<!spirv.array<264 x f16>, Workgroup>
  // ALL-NEXT:   spirv.GlobalVariable @staged : !spirv.ptr<!spirv.array<72 x f16>, Workgroup>
  spirv.GlobalVariable @staged : !spirv.ptr<!spirv.array<@padded x f16>, Workgroup>

  // CHECK-NEXT: spirv.GlobalVariable @factor initializer(@scale) : !spirv.ptr<f32, Private>
  spirv.GlobalVariable @factor initializer(@scale) : !spirv.ptr<f32, Private>

  spirv.func @main() "None" {
    // CHECK:      %{{.*}} = spirv.Constant 32 : i32
    // CHECK-NEXT: %{{.*}} = spirv.Constant 8 : i32
    // CHECK-NEXT: %{{.*}} = spirv.Constant 40 : i32
    // CHECK-NEXT: %{{.*}} = spirv.Constant dense<[32, 8, 1]> : vector<3xi32>
    // CHECK-NEXT: %{{.*}} = spirv.Constant 32 : i32
    // CHECK-NEXT: %{{.*}} = spirv.mlir.referenceof @kept : i1
    // CHECK-NEXT: %{{.*}} = spirv.ConstantNull : !spirv.coopmatrix<32x8xf32, Subgroup, MatrixAcc>
    %w = spirv.mlir.referenceof @width : i32
    %t = spirv.mlir.referenceof @tile : i32
    %s = spirv.SpecConstantOperation wraps "spirv.IAdd"(%w, %t) : (i32, i32) -> i32
    %v = spirv.mlir.referenceof @size : vector<3xi32>
    %x = spirv.mlir.referenceof @across : i32
    %k = spirv.mlir.referenceof @kept : i1
    %m = spirv.ConstantNull : !spirv.coopmatrix<@width x @tile x f32, Subgroup, MatrixAcc>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  // CHECK: spirv.ExecutionMode @main "LocalSize", 32, 8, 1
  // ALL:   spirv.ExecutionMode @main "LocalSize", 16, 4, 1
  spirv.ExecutionMode @main "LocalSizeId", @also_width, @tile, 1
}
