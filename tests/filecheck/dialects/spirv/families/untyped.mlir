// RUN: XDSL_ROUNDTRIP

// EXTENSION: SPV_KHR_untyped_pointers
spirv.module Logical Vulkan {
  spirv.GlobalVariable @typed bind(0, 1) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
  spirv.KHR.UntypedGlobalVariable @x !spirv.struct<(!spirv.rtarray<f32, stride=4> [0])> bind(0, 0) {non_writable} : !spirv.untyped_ptr<StorageBuffer>
  spirv.KHR.UntypedGlobalVariable @half !spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block> bind(0, 2) : !spirv.untyped_ptr<StorageBuffer>
  spirv.func @f() "None" {
    %0 = spirv.Constant 0 : i32
    %3 = spirv.Constant 3 : i32
    %st = spirv.Constant 32 : i32
    %x = spirv.mlir.addressof @x : !spirv.untyped_ptr<StorageBuffer>
    %p = spirv.KHR.UntypedAccessChain !spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, %x[%0, %3] : !spirv.untyped_ptr<StorageBuffer>, i32, i32 -> !spirv.untyped_ptr<StorageBuffer>
    %q = spirv.KHR.UntypedInBoundsAccessChain !spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, %x[%0] : !spirv.untyped_ptr<StorageBuffer>, i32 -> !spirv.untyped_ptr<StorageBuffer>
    %r = spirv.KHR.UntypedInBoundsAccessChain f32, %p[] : !spirv.untyped_ptr<StorageBuffer> -> !spirv.untyped_ptr<StorageBuffer>
    %n = spirv.KHR.UntypedArrayLength !spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, %x[0] : !spirv.untyped_ptr<StorageBuffer> -> i32
    %v = spirv.Load %p ["Aligned", 4] : !spirv.untyped_ptr<StorageBuffer> -> f32
    %i = spirv.Load %r : !spirv.untyped_ptr<StorageBuffer> -> i32
    spirv.Store %r, %v : !spirv.untyped_ptr<StorageBuffer>, f32
    spirv.Store %p, %i : !spirv.untyped_ptr<StorageBuffer>, i32
    %y = spirv.mlir.addressof @typed : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
    %yp = spirv.AccessChain %y[%0, %3] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
    spirv.CopyMemory %yp, %p : !spirv.ptr<f32, StorageBuffer>, !spirv.untyped_ptr<StorageBuffer>
    spirv.CopyMemorySized %yp, %p, %st : !spirv.ptr<f32, StorageBuffer>, !spirv.untyped_ptr<StorageBuffer>, i32
    %eq = spirv.PtrEqual %p, %q : !spirv.untyped_ptr<StorageBuffer>, !spirv.untyped_ptr<StorageBuffer>
    %old = spirv.AtomicIAdd <Workgroup> <None> %p, %3 : !spirv.untyped_ptr<StorageBuffer>, i32
    %m = spirv.KHR.CooperativeMatrixLoad %q, %st, <RowMajor> : !spirv.untyped_ptr<StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.KHR.CooperativeMatrixStore %q, %m, %st, <RowMajor> : !spirv.untyped_ptr<StorageBuffer>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, i32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @f
  spirv.ExecutionMode @f "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.GlobalVariable @typed bind(0, 1) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
// CHECK-NEXT:     spirv.KHR.UntypedGlobalVariable @x !spirv.struct<(!spirv.rtarray<f32, stride=4> [0])> bind(0, 0) {non_writable} : !spirv.untyped_ptr<StorageBuffer>
// CHECK-NEXT:     spirv.KHR.UntypedGlobalVariable @half !spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block> bind(0, 2) : !spirv.untyped_ptr<StorageBuffer>
// CHECK-NEXT:     spirv.func @f() "None" {
// CHECK-NEXT:       %0 = spirv.Constant 0 : i32
// CHECK-NEXT:       %1 = spirv.Constant 3 : i32
// CHECK-NEXT:       %st = spirv.Constant 32 : i32
// CHECK-NEXT:       %x = spirv.mlir.addressof @x : !spirv.untyped_ptr<StorageBuffer>
// CHECK-NEXT:       %p = spirv.KHR.UntypedAccessChain !spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, %x[%0, %1] : !spirv.untyped_ptr<StorageBuffer>, i32, i32 -> !spirv.untyped_ptr<StorageBuffer>
// CHECK-NEXT:       %q = spirv.KHR.UntypedInBoundsAccessChain !spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, %x[%0] : !spirv.untyped_ptr<StorageBuffer>, i32 -> !spirv.untyped_ptr<StorageBuffer>
// CHECK-NEXT:       %r = spirv.KHR.UntypedInBoundsAccessChain f32, %p[] : !spirv.untyped_ptr<StorageBuffer> -> !spirv.untyped_ptr<StorageBuffer>
// CHECK-NEXT:       %n = spirv.KHR.UntypedArrayLength !spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, %x[0] : !spirv.untyped_ptr<StorageBuffer> -> i32
// CHECK-NEXT:       %v = spirv.Load %p ["Aligned", 4] : !spirv.untyped_ptr<StorageBuffer> -> f32
// CHECK-NEXT:       %i = spirv.Load %r : !spirv.untyped_ptr<StorageBuffer> -> i32
// CHECK-NEXT:       spirv.Store %r, %v : !spirv.untyped_ptr<StorageBuffer>, f32
// CHECK-NEXT:       spirv.Store %p, %i : !spirv.untyped_ptr<StorageBuffer>, i32
// CHECK-NEXT:       %y = spirv.mlir.addressof @typed : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
// CHECK-NEXT:       %yp = spirv.AccessChain %y[%0, %1] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
// CHECK-NEXT:       spirv.CopyMemory %yp, %p : !spirv.ptr<f32, StorageBuffer>, !spirv.untyped_ptr<StorageBuffer>
// CHECK-NEXT:       spirv.CopyMemorySized %yp, %p, %st : !spirv.ptr<f32, StorageBuffer>, !spirv.untyped_ptr<StorageBuffer>, i32
// CHECK-NEXT:       %eq = spirv.PtrEqual %p, %q : !spirv.untyped_ptr<StorageBuffer>, !spirv.untyped_ptr<StorageBuffer>
// CHECK-NEXT:       %old = spirv.AtomicIAdd <Workgroup> <None> %p, %1 : !spirv.untyped_ptr<StorageBuffer>, i32
// CHECK-NEXT:       %m = spirv.KHR.CooperativeMatrixLoad %q, %st, <RowMajor> : !spirv.untyped_ptr<StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NEXT:       spirv.KHR.CooperativeMatrixStore %q, %m, %st, <RowMajor> : !spirv.untyped_ptr<StorageBuffer>, !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, i32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @f
// CHECK-NEXT:     spirv.ExecutionMode @f "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION
spirv.module Physical64 OpenCL {
  spirv.func @prefetch(%p: !spirv.untyped_ptr<CrossWorkgroup>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "prefetch", linkage_type = <Export>>} {
    %n = spirv.Constant 64 : i32
    %one = spirv.Constant 1 : i32
    %v = spirv.Constant 1.0 : f32
    %l = spirv.KHR.UntypedVariable init(%v : f32) f32 : !spirv.untyped_ptr<Function>
    %s = spirv.KHR.UntypedPtrAccessChain !spirv.array<4 x f32>, %p[%n %one] : !spirv.untyped_ptr<CrossWorkgroup>, i32, i32 -> !spirv.untyped_ptr<CrossWorkgroup>
    %t = spirv.KHR.UntypedInBoundsPtrAccessChain !spirv.array<4 x f32>, %p[%n] : !spirv.untyped_ptr<CrossWorkgroup>, i32 -> !spirv.untyped_ptr<CrossWorkgroup>
    %u = spirv.KHR.UntypedVariable i32 : !spirv.untyped_ptr<Function>
    spirv.KHR.UntypedPrefetch %p, %n : !spirv.untyped_ptr<CrossWorkgroup>, i32
    spirv.KHR.UntypedPrefetch %p, %n rw(0) locality(3) cache_type(1) : !spirv.untyped_ptr<CrossWorkgroup>, i32
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Physical64 OpenCL {
// CHECK-NEXT:     spirv.func @prefetch(%p: !spirv.untyped_ptr<CrossWorkgroup>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "prefetch", linkage_type = <Export>>} {
// CHECK-NEXT:       %n = spirv.Constant 64 : i32
// CHECK-NEXT:       %one = spirv.Constant 1 : i32
// CHECK-NEXT:       %v = spirv.Constant 1.000000e+00 : f32
// CHECK-NEXT:       %l = spirv.KHR.UntypedVariable init(%v : f32) f32 : !spirv.untyped_ptr<Function>
// CHECK-NEXT:       %s = spirv.KHR.UntypedPtrAccessChain !spirv.array<4 x f32>, %p[%n %one] : !spirv.untyped_ptr<CrossWorkgroup>, i32, i32 -> !spirv.untyped_ptr<CrossWorkgroup>
// CHECK-NEXT:       %t = spirv.KHR.UntypedInBoundsPtrAccessChain !spirv.array<4 x f32>, %p[%n] : !spirv.untyped_ptr<CrossWorkgroup>, i32 -> !spirv.untyped_ptr<CrossWorkgroup>
// CHECK-NEXT:       %u = spirv.KHR.UntypedVariable i32 : !spirv.untyped_ptr<Function>
// CHECK-NEXT:       spirv.KHR.UntypedPrefetch %p, %n : !spirv.untyped_ptr<CrossWorkgroup>, i32
// CHECK-NEXT:       spirv.KHR.UntypedPrefetch %p, %n rw(0) locality(3) cache_type(1) : !spirv.untyped_ptr<CrossWorkgroup>, i32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
