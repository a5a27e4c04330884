// RUN: XDSL_ROUNDTRIP

// A module contains every kind of module-level operation.
spirv.module @kernels Logical Vulkan requires #spirv.vce<v1.6, [Shader, VulkanMemoryModel], [SPV_KHR_cooperative_matrix]> {
  spirv.GlobalVariable @in bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0, NonWritable])>, StorageBuffer>
  spirv.GlobalVariable @out bind(0, 1) {aliased} : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
  spirv.GlobalVariable @constants : !spirv.ptr<!spirv.struct<(i32 [0], i32 [4])>, PushConstant>
  spirv.GlobalVariable @uniform bind(1, 0) : !spirv.ptr<!spirv.struct<(vector<4xf32> [0])>, Uniform>
  spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
  spirv.GlobalVariable @at {location = 3 : i32} : !spirv.ptr<vector<3xi32>, Input>
  spirv.GlobalVariable @tile : !spirv.ptr<!spirv.array<1024 x f16>, Workgroup>
  spirv.SpecConstant @size spec_id(5) = 16 : i32
  spirv.GlobalVariable @private initializer(@size) : !spirv.ptr<i32, Private>
  spirv.func @main() "None" {
    %id = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
    %size = spirv.mlir.referenceof @size : i32
    spirv.Return
  }
  spirv.func @helper(%a: i32, %b: f32 {spirv.decoration = #spirv.decoration<Aliased>}) -> f32 "Inline|Pure" attributes {note = "kept"} {
    spirv.ReturnValue %b : f32
  }
  spirv.func @elsewhere(i32) -> i32 "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "elsewhere", linkage_type = <Import>>}
  spirv.EntryPoint "GLCompute" @main, @in, @out, @constants, @uniform, @id, @tile
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
  spirv.ExecutionMode @main "ContractionOff"
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module @kernels Logical Vulkan requires #spirv.vce<v1.6, [Shader, VulkanMemoryModel], [SPV_KHR_cooperative_matrix]> {
// CHECK-NEXT:     spirv.GlobalVariable @in bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0, NonWritable])>, StorageBuffer>
// CHECK-NEXT:     spirv.GlobalVariable @out bind(0, 1) {aliased} : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
// CHECK-NEXT:     spirv.GlobalVariable @constants : !spirv.ptr<!spirv.struct<(i32 [0], i32 [4])>, PushConstant>
// CHECK-NEXT:     spirv.GlobalVariable @uniform bind(1, 0) : !spirv.ptr<!spirv.struct<(vector<4xf32> [0])>, Uniform>
// CHECK-NEXT:     spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
// CHECK-NEXT:     spirv.GlobalVariable @at {location = 3 : i32} : !spirv.ptr<vector<3xi32>, Input>
// CHECK-NEXT:     spirv.GlobalVariable @tile : !spirv.ptr<!spirv.array<1024 x f16>, Workgroup>
// CHECK-NEXT:     spirv.SpecConstant @size spec_id(5) = 16 : i32
// CHECK-NEXT:     spirv.GlobalVariable @private initializer(@size) : !spirv.ptr<i32, Private>
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %id = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
// CHECK-NEXT:       %size = spirv.mlir.referenceof @size : i32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.func @helper(%a: i32, %b: f32 {spirv.decoration = #spirv.decoration<Aliased>}) -> f32 "Inline|Pure" attributes {note = "kept"} {
// CHECK-NEXT:       spirv.ReturnValue %b : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.func @elsewhere(i32) -> i32 "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "elsewhere", linkage_type = <Import>>}
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main, @in, @out, @constants, @uniform, @id, @tile
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 32, 1, 1
// CHECK-NEXT:     spirv.ExecutionMode @main "ContractionOff"
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// A module may have no name, and may have attributes.
spirv.module Logical GLSL450 {
}
spirv.module PhysicalStorageBuffer64 Vulkan attributes {note = 1 : i32} {
  spirv.func @nothing() -> () "DontInline" {
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical GLSL450 {
// CHECK-NEXT:   ^bb0:
// CHECK-NEXT:   }
// CHECK-NEXT:   spirv.module PhysicalStorageBuffer64 Vulkan attributes {note = 1 : i32} {
// CHECK-NEXT:     spirv.func @nothing() "DontInline" {
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
