// RUN: XDSL_ROUNDTRIP

// EXTENSION
spirv.module Logical GLSL450 {
  spirv.GlobalVariable @b bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>
  spirv.func @compare() "None" {
    %0 = spirv.Constant 0 : i32
    %1 = spirv.Constant 1 : i32
    %base = spirv.mlir.addressof @b : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>
    %p = spirv.AccessChain %base[%0, %0] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
    %q = spirv.AccessChain %base[%0, %1] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
    %eq = spirv.PtrEqual %p, %q : !spirv.ptr<i32, StorageBuffer>, !spirv.ptr<i32, StorageBuffer>
    %ne = spirv.PtrNotEqual %p, %q : !spirv.ptr<i32, StorageBuffer>, !spirv.ptr<i32, StorageBuffer>
    %d = spirv.PtrDiff %p, %q : !spirv.ptr<i32, StorageBuffer>, !spirv.ptr<i32, StorageBuffer> -> i32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @compare
  spirv.ExecutionMode @compare "LocalSize", 1, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical GLSL450 {
// CHECK-NEXT:     spirv.GlobalVariable @b bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>
// CHECK-NEXT:     spirv.func @compare() "None" {
// CHECK-NEXT:       %0 = spirv.Constant 0 : i32
// CHECK-NEXT:       %1 = spirv.Constant 1 : i32
// CHECK-NEXT:       %base = spirv.mlir.addressof @b : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>
// CHECK-NEXT:       %p = spirv.AccessChain %base[%0, %0] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
// CHECK-NEXT:       %q = spirv.AccessChain %base[%0, %1] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
// CHECK-NEXT:       %eq = spirv.PtrEqual %p, %q : !spirv.ptr<i32, StorageBuffer>, !spirv.ptr<i32, StorageBuffer>
// CHECK-NEXT:       %ne = spirv.PtrNotEqual %p, %q : !spirv.ptr<i32, StorageBuffer>, !spirv.ptr<i32, StorageBuffer>
// CHECK-NEXT:       %d = spirv.PtrDiff %p, %q : !spirv.ptr<i32, StorageBuffer>, !spirv.ptr<i32, StorageBuffer> -> i32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @compare
// CHECK-NEXT:     spirv.ExecutionMode @compare "LocalSize", 1, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION
spirv.module Logical Vulkan {
  spirv.GlobalVariable @b bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
  spirv.func @raw() "None" {
    %0 = spirv.Constant 0 : i32
    %1 = spirv.Constant 4 : i32
    %base = spirv.mlir.addressof @b : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
    %p = spirv.NV.RawAccessChain %base[%1, %0, %0], <RobustnessPerElementNV> : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32, i32 -> !spirv.ptr<vector<4xf32>, StorageBuffer>
    %q = spirv.NV.RawAccessChain %base[%1, %0, %0] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32, i32 -> !spirv.ptr<vector<4xf32>, StorageBuffer>
    %v = spirv.Load "StorageBuffer" %p ["Aligned", 16] : vector<4xf32>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @raw
  spirv.ExecutionMode @raw "LocalSize", 1, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.GlobalVariable @b bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
// CHECK-NEXT:     spirv.func @raw() "None" {
// CHECK-NEXT:       %0 = spirv.Constant 0 : i32
// CHECK-NEXT:       %1 = spirv.Constant 4 : i32
// CHECK-NEXT:       %base = spirv.mlir.addressof @b : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
// CHECK-NEXT:       %p = spirv.NV.RawAccessChain %base[%1, %0, %0], <RobustnessPerElementNV> : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32, i32 -> !spirv.ptr<vector<4xf32>, StorageBuffer>
// CHECK-NEXT:       %q = spirv.NV.RawAccessChain %base[%1, %0, %0] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32, i32 -> !spirv.ptr<vector<4xf32>, StorageBuffer>
// CHECK-NEXT:       %v = spirv.Load "StorageBuffer" %p ["Aligned", 16] : vector<4xf32>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @raw
// CHECK-NEXT:     spirv.ExecutionMode @raw "LocalSize", 1, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION
spirv.module Physical64 OpenCL {
  spirv.func @sized(%to: !spirv.ptr<i32, CrossWorkgroup>, %from: !spirv.ptr<i32, CrossWorkgroup>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "sized", linkage_type = <Export>>} {
    %n = spirv.Constant 16 : i64
    spirv.CopyMemorySized %to, %from, %n ["Aligned", 4] : !spirv.ptr<i32, CrossWorkgroup>, !spirv.ptr<i32, CrossWorkgroup>, i64
    spirv.CopyMemorySized %to, %from, %n ["Aligned", 4], ["Volatile|Aligned", 8] : !spirv.ptr<i32, CrossWorkgroup>, !spirv.ptr<i32, CrossWorkgroup>, i64
    %size = spirv.SizeOf %from : !spirv.ptr<i32, CrossWorkgroup> -> i32
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Physical64 OpenCL {
// CHECK-NEXT:     spirv.func @sized(%to: !spirv.ptr<i32, CrossWorkgroup>, %from: !spirv.ptr<i32, CrossWorkgroup>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "sized", linkage_type = <Export>>} {
// CHECK-NEXT:       %n = spirv.Constant 16 : i64
// CHECK-NEXT:       spirv.CopyMemorySized %to, %from, %n ["Aligned", 4] : !spirv.ptr<i32, CrossWorkgroup>, !spirv.ptr<i32, CrossWorkgroup>, i64
// CHECK-NEXT:       spirv.CopyMemorySized %to, %from, %n ["Aligned", 4], ["Volatile|Aligned", 8] : !spirv.ptr<i32, CrossWorkgroup>, !spirv.ptr<i32, CrossWorkgroup>, i64
// CHECK-NEXT:       %size = spirv.SizeOf %from : !spirv.ptr<i32, CrossWorkgroup> -> i32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: recursive structs, strided physical pointers
spirv.module PhysicalStorageBuffer64 Vulkan {
  spirv.GlobalVariable @root : !spirv.ptr<!spirv.struct<(!spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer> [0], i64 [8], !spirv.ptr<f32, PhysicalStorageBuffer, stride=4> [16])>, PushConstant>
  spirv.func @walk() "None" {
    %0 = spirv.Constant 0 : i32
    %1 = spirv.Constant 1 : i32
    %2 = spirv.Constant 2 : i32
    %root = spirv.mlir.addressof @root : !spirv.ptr<!spirv.struct<(!spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer> [0], i64 [8], !spirv.ptr<f32, PhysicalStorageBuffer, stride=4> [16])>, PushConstant>
    %pf = spirv.AccessChain %root[%2] : !spirv.ptr<!spirv.struct<(!spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer> [0], i64 [8], !spirv.ptr<f32, PhysicalStorageBuffer, stride=4> [16])>, PushConstant>, i32 -> !spirv.ptr<!spirv.ptr<f32, PhysicalStorageBuffer, stride=4>, PushConstant>
    %f = spirv.Load "PushConstant" %pf : !spirv.ptr<f32, PhysicalStorageBuffer, stride=4>
    %g = spirv.PtrAccessChain %f[%2] : !spirv.ptr<f32, PhysicalStorageBuffer, stride=4>, i32 -> !spirv.ptr<f32, PhysicalStorageBuffer, stride=4>
    %v = spirv.Load %g ["Aligned", 4] : !spirv.ptr<f32, PhysicalStorageBuffer, stride=4> -> f32
    spirv.Store %g, %v ["Aligned", 4] : !spirv.ptr<f32, PhysicalStorageBuffer, stride=4>, f32
    %pn = spirv.AccessChain %root[%0] : !spirv.ptr<!spirv.struct<(!spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer> [0], i64 [8], !spirv.ptr<f32, PhysicalStorageBuffer, stride=4> [16])>, PushConstant>, i32 -> !spirv.ptr<!spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer>, PushConstant>
    %n = spirv.Load "PushConstant" %pn : !spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer>
    %next = spirv.AccessChain %n[%1] : !spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer>, i32 -> !spirv.ptr<!spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer>, PhysicalStorageBuffer>
    %m = spirv.Load "PhysicalStorageBuffer" %next ["Aligned", 8] : !spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer>
    %a = spirv.ConvertPtrToU %m : !spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer> to i64
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @walk
  spirv.ExecutionMode @walk "LocalSize", 1, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module PhysicalStorageBuffer64 Vulkan {
// CHECK-NEXT:     spirv.GlobalVariable @root : !spirv.ptr<!spirv.struct<(!spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer> [0], i64 [8], !spirv.ptr<f32, PhysicalStorageBuffer, stride=4> [16])>, PushConstant>
// CHECK-NEXT:     spirv.func @walk() "None" {
// CHECK-NEXT:       %0 = spirv.Constant 0 : i32
// CHECK-NEXT:       %1 = spirv.Constant 1 : i32
// CHECK-NEXT:       %2 = spirv.Constant 2 : i32
// CHECK-NEXT:       %root = spirv.mlir.addressof @root : !spirv.ptr<!spirv.struct<(!spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer> [0], i64 [8], !spirv.ptr<f32, PhysicalStorageBuffer, stride=4> [16])>, PushConstant>
// CHECK-NEXT:       %pf = spirv.AccessChain %root[%2] : !spirv.ptr<!spirv.struct<(!spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer> [0], i64 [8], !spirv.ptr<f32, PhysicalStorageBuffer, stride=4> [16])>, PushConstant>, i32 -> !spirv.ptr<!spirv.ptr<f32, PhysicalStorageBuffer, stride=4>, PushConstant>
// CHECK-NEXT:       %f = spirv.Load "PushConstant" %pf : !spirv.ptr<f32, PhysicalStorageBuffer, stride=4>
// CHECK-NEXT:       %g = spirv.PtrAccessChain %f[%2] : !spirv.ptr<f32, PhysicalStorageBuffer, stride=4>, i32 -> !spirv.ptr<f32, PhysicalStorageBuffer, stride=4>
// CHECK-NEXT:       %v = spirv.Load %g ["Aligned", 4] : !spirv.ptr<f32, PhysicalStorageBuffer, stride=4> -> f32
// CHECK-NEXT:       spirv.Store %g, %v ["Aligned", 4] : !spirv.ptr<f32, PhysicalStorageBuffer, stride=4>, f32
// CHECK-NEXT:       %pn = spirv.AccessChain %root[%0] : !spirv.ptr<!spirv.struct<(!spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer> [0], i64 [8], !spirv.ptr<f32, PhysicalStorageBuffer, stride=4> [16])>, PushConstant>, i32 -> !spirv.ptr<!spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer>, PushConstant>
// CHECK-NEXT:       %n = spirv.Load "PushConstant" %pn : !spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer>
// CHECK-NEXT:       %next = spirv.AccessChain %n[%1] : !spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer>, i32 -> !spirv.ptr<!spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer>, PhysicalStorageBuffer>
// CHECK-NEXT:       %m = spirv.Load "PhysicalStorageBuffer" %next ["Aligned", 8] : !spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer>
// CHECK-NEXT:       %a = spirv.ConvertPtrToU %m : !spirv.ptr<!spirv.struct<node, (i32 [0], !spirv.ptr<!spirv.struct<node>, PhysicalStorageBuffer> [8]), Block>, PhysicalStorageBuffer> to i64
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @walk
// CHECK-NEXT:     spirv.ExecutionMode @walk "LocalSize", 1, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }
