// RUN: xdsl-opt %s -p 'spirv-update-vce' --verify-diagnostics --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'spirv-update-vce{version=1.0}' --verify-diagnostics --split-input-file | filecheck %s --check-prefix=V10
// 8- and 16-bit data that is only loaded, stored and converted needs a storage capability of its storage
// class, and no capability for arithmetic (SPIR-V 2.16.2). Elsewhere it needs Int8, Int16 or Float16.

spirv.module Logical GLSL450 {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, StorageBuffer16BitAccess], []>
// V10: #spirv.vce<v1.0, [Shader, StorageBuffer16BitAccess], [SPV_KHR_16bit_storage, SPV_KHR_storage_buffer_storage_class]>

// -----

spirv.module Logical GLSL450 {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<vector<4xi8>, stride=4> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, StorageBuffer8BitAccess], []>
// V10: #spirv.vce<v1.0, [Shader, StorageBuffer8BitAccess], [SPV_KHR_8bit_storage, SPV_KHR_storage_buffer_storage_class]>

// -----

spirv.module Logical GLSL450 {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(f16 [0])>, Uniform>
  spirv.GlobalVariable @B bind(0, 1) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, StorageUniform16], []>
// V10: StorageUniform16

// -----

spirv.module Logical GLSL450 {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(i8 [0])>, Uniform>
  spirv.func @f() "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, UniformAndStorageBuffer8BitAccess], []>
// V10: UniformAndStorageBuffer8BitAccess

// -----

spirv.module Logical GLSL450 {
  spirv.GlobalVariable @A : !spirv.ptr<!spirv.struct<(f16 [0], i8 [2])>, PushConstant>
  spirv.func @f() "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, StoragePushConstant16, StoragePushConstant8], []>
// V10: StoragePushConstant16

// -----

// Arithmetic and constants need capabilities for arithmetic.
spirv.module Logical GLSL450 {
  spirv.func @f(%x: f16) "None" {
    %0 = spirv.FAdd %x, %x : f16
    %1 = spirv.Constant 1 : i8
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Float16, Int8], []>
// V10: #spirv.vce<v1.0, [Shader, Float16, Int8], []>

// -----

// Loading, converting and storing needs no capability for arithmetic.
spirv.module Logical GLSL450 {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    %i = spirv.Constant 0 : i32
    %a = spirv.mlir.addressof @A : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %p = spirv.AccessChain %a[%i, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %x = spirv.Load "StorageBuffer" %p : f16
    %y = spirv.FConvert %x : f16 to f32
    %z = spirv.FAdd %y, %y : f32
    %r = spirv.FConvert %z : f32 to f16
    spirv.Store "StorageBuffer" %p, %r : f16
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, StorageBuffer16BitAccess], []>
// V10: StorageBuffer16BitAccess

// -----

// Private, Function and Workgroup memory have no storage capability.
spirv.module Logical GLSL450 {
  spirv.GlobalVariable @A : !spirv.ptr<!spirv.array<4 x f16>, Workgroup>
  spirv.GlobalVariable @B : !spirv.ptr<i8, Private>
  spirv.func @f() "None" {
    %0 = spirv.Variable : !spirv.ptr<i16, Function>
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, Float16, Int16, Int8], []>
// V10: #spirv.vce<v1.0, [Shader, Float16, Int16, Int8], []>

// -----

// bfloat16 is 16-bit storage, too.
spirv.module Logical GLSL450 {
  spirv.GlobalVariable @A bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<bf16, stride=2> [0])>, StorageBuffer>
  spirv.func @f() "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [Shader, StorageBuffer16BitAccess, BFloat16TypeKHR], [SPV_KHR_bfloat16]>
// V10: SPV_KHR_16bit_storage, SPV_KHR_bfloat16

// -----

// Workgroup memory with an explicit layout.
spirv.module Logical GLSL450 {
  spirv.GlobalVariable @A : !spirv.ptr<!spirv.struct<(!spirv.array<4 x f16, stride=2> [0])>, Workgroup>
  spirv.GlobalVariable @B : !spirv.ptr<!spirv.struct<(!spirv.array<4 x i8, stride=1> [0])>, Workgroup>
  spirv.func @f() "None" {
    spirv.Return
  }
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}
// CHECK: #spirv.vce<v1.6, [WorkgroupMemoryExplicitLayout8BitAccessKHR, WorkgroupMemoryExplicitLayout16BitAccessKHR], [SPV_KHR_workgroup_memory_explicit_layout]>
// V10: WorkgroupMemoryExplicitLayout
