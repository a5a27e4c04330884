// RUN: not xdsl-opt %s -p spirv-cooperative-matrix-to-invocations 2>&1 | filecheck %s --check-prefix=SIZE
// RUN: not xdsl-opt %s -p 'spirv-cooperative-matrix-to-invocations{subgroup-size=24}' 2>&1 | filecheck %s --check-prefix=POWER
// RUN: not xdsl-opt %s -p 'spirv-cooperative-matrix-to-invocations{subgroup-size=128}' 2>&1 | filecheck %s --check-prefix=MULTIPLE
// RUN: not xdsl-opt %s -p 'spirv-cooperative-matrix-to-invocations{subgroup-size=8 workgroup-memory=1024}' 2>&1 | filecheck %s --check-prefix=MEMORY
// RUN: not xdsl-opt %s -p 'spirv-cooperative-matrix-to-invocations{subgroup-size=8 subgroups=half}' 2>&1 | filecheck %s --check-prefix=KIND
// RUN: not xdsl-opt %s -p 'spirv-cooperative-matrix-to-invocations{target=toaster}' 2>&1 | filecheck %s --check-prefix=TARGET

// SIZE: spirv-cooperative-matrix-to-invocations: 'spirv.KHR.CooperativeMatrixLoad' (%x) in @main: the number of invocations that share !spirv.coopmatrix<8x8xf16, Subgroup, MatrixA> is not known: set subgroup-size or target
// POWER: subgroup-size is 24: use a power of two
// MULTIPLE: a workgroup of 64 invocations is not a multiple of subgroups of 128
// MEMORY: 'spirv.KHR.CooperativeMatrixMulAdd' (%r) in @main: exchanged components need 4096 bytes of Workgroup memory for 8 groups of 8 invocations; only 1024 of 1024 are free: raise workgroup-memory
// KIND: subgroups must be virtual or device, not 'half'
// TARGET: there is no target 'toaster'

spirv.module Logical Vulkan {
  spirv.GlobalVariable @a bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block>, StorageBuffer>
  spirv.GlobalVariable @d bind(0, 1) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
  spirv.func @main() "None" {
    %zero = spirv.Constant 0 : i32
    %eight = spirv.Constant 8 : i32
    %a = spirv.mlir.addressof @a : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block>, StorageBuffer>
    %d = spirv.mlir.addressof @d : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
    %p = spirv.AccessChain %a[%zero, %zero] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %q = spirv.AccessChain %d[%zero, %zero] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
    %x = spirv.KHR.CooperativeMatrixLoad %p, %eight, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<8x8xf16, Subgroup, MatrixA>
    %y = spirv.KHR.CooperativeMatrixLoad %p, %eight, <ColumnMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<8x8xf16, Subgroup, MatrixB>
    %c = spirv.Constant dense<1.0> : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
    %r = spirv.KHR.CooperativeMatrixMulAdd %x, %y, %c : !spirv.coopmatrix<8x8xf16, Subgroup, MatrixA>, !spirv.coopmatrix<8x8xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
    %s = spirv.FAdd %r, %c : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>
    spirv.KHR.CooperativeMatrixStore %q, %s, %eight, <RowMajor> : !spirv.ptr<f32, StorageBuffer>, !spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>, i32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @a, @d
  spirv.ExecutionMode @main "LocalSize", 64, 1, 1
}
