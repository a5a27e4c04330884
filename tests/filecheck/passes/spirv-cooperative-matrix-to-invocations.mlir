// RUN: xdsl-opt %s -p 'spirv-cooperative-matrix-to-invocations{subgroup-size=32}' | filecheck %s

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

// CHECK:      spirv.GlobalVariable @a bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block>, StorageBuffer>
// CHECK-NEXT: spirv.GlobalVariable @d bind(0, 1) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
// CHECK-NEXT: spirv.GlobalVariable @exchange_f32 : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>
// CHECK-NEXT: spirv.GlobalVariable @__builtin__LocalInvocationIndex__ built_in("LocalInvocationIndex") : !spirv.ptr<i32, Input>
// CHECK-NEXT: spirv.func @main() "None" {
// CHECK-NEXT: %[[V0:\w+]] = spirv.mlir.addressof @__builtin__LocalInvocationIndex__ : !spirv.ptr<i32, Input>
// CHECK-NEXT: %[[V1:\w+]] = spirv.Load "Input" %[[V0]] : i32
// CHECK-NEXT: %[[V2:\w+]] = spirv.Constant 31 : i32
// CHECK-NEXT: %[[V3:\w+]] = spirv.BitwiseAnd %[[V1]], %[[V2]] : i32
// CHECK-NEXT: %[[V4:\w+]] = spirv.Constant 3 : i32
// CHECK-NEXT: %[[V5:\w+]] = spirv.ShiftRightLogical %[[V3]], %[[V4]] : i32, i32
// CHECK-NEXT: %[[V6:\w+]] = spirv.Constant 7 : i32
// CHECK-NEXT: %[[V7:\w+]] = spirv.BitwiseAnd %[[V3]], %[[V6]] : i32
// CHECK-NEXT: %[[V8:\w+]] = spirv.Constant 8 : i32
// CHECK-NEXT: %[[V9:\w+]] = spirv.IMul %[[V5]], %[[V8]] : i32
// CHECK-NEXT: %[[V10:\w+]] = spirv.IAdd %[[V9]], %[[V7]] : i32
// CHECK-NEXT: %[[V11:\w+]] = spirv.Constant 4 : i32
// CHECK-NEXT: %[[V12:\w+]] = spirv.IAdd %[[V5]], %[[V11]] : i32
// CHECK-NEXT: %[[V13:\w+]] = spirv.IMul %[[V12]], %[[V8]] : i32
// CHECK-NEXT: %[[V14:\w+]] = spirv.IAdd %[[V13]], %[[V7]] : i32
// CHECK-NEXT: %[[V15:\w+]] = spirv.IMul %[[V7]], %[[V8]] : i32
// CHECK-NEXT: %[[V16:\w+]] = spirv.IAdd %[[V15]], %[[V5]] : i32
// CHECK-NEXT: %[[V18:\w+]] = spirv.IAdd %[[V15]], %[[V12]] : i32
// CHECK-NEXT: %[[V19:\w+]] = spirv.Constant 5 : i32
// CHECK-NEXT: %[[V20:\w+]] = spirv.ShiftRightLogical %[[V1]], %[[V19]] : i32, i32
// CHECK-NEXT: %[[V21:\w+]] = spirv.Constant 128 : i32
// CHECK-NEXT: %[[V22:\w+]] = spirv.IMul %[[V20]], %[[V21]] : i32
// CHECK-NEXT: %[[V23:\w+]] = spirv.IAdd %[[V22]], %[[V3]] : i32
// CHECK-NEXT: %[[V24:\w+]] = spirv.mlir.addressof @exchange_f32 : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>
// CHECK-NEXT: %[[V25:\w+]] = spirv.Constant 32 : i32
// CHECK-NEXT: %[[V26:\w+]] = spirv.IAdd %[[V3]], %[[V25]] : i32
// CHECK-NEXT: %[[V27:\w+]] = spirv.IAdd %[[V22]], %[[V26]] : i32
// CHECK-NEXT: %[[V28:\w+]] = spirv.Constant 64 : i32
// CHECK-NEXT: %[[V29:\w+]] = spirv.IAdd %[[V22]], %[[V28]] : i32
// CHECK-NEXT: %[[V30:\w+]] = spirv.IAdd %[[V29]], %[[V3]] : i32
// CHECK-NEXT: %[[V31:\w+]] = spirv.IAdd %[[V29]], %[[V26]] : i32
// CHECK-NEXT: %[[V33:\w+]] = spirv.IAdd %[[V22]], %[[V9]] : i32
// CHECK-NEXT: %[[V35:\w+]] = spirv.IAdd %[[V22]], %[[V13]] : i32
// CHECK-NEXT: %[[V36:\w+]] = spirv.IAdd %[[V29]], %[[V7]] : i32
// CHECK-NEXT: %[[V37:\w+]] = spirv.Constant 0 : i32
// CHECK-NEXT: %[[V38:\w+]] = spirv.Constant 1 : i32
// CHECK-NEXT: %[[ZERO:\w+]] = spirv.Constant 0 : i32
// CHECK-NEXT: %[[EIGHT:\w+]] = spirv.Constant 8 : i32
// CHECK-NEXT: %[[A:\w+]] = spirv.mlir.addressof @a : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block>, StorageBuffer>
// CHECK-NEXT: %[[D:\w+]] = spirv.mlir.addressof @d : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
// CHECK-NEXT: %[[P:\w+]] = spirv.AccessChain %[[A]][%[[ZERO]], %[[ZERO]]] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
// CHECK-NEXT: %[[Q:\w+]] = spirv.AccessChain %[[D]][%[[ZERO]], %[[ZERO]]] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
// CHECK-NEXT: %[[V39:\w+]] = spirv.AccessChain %[[A]][%[[ZERO]], %[[V10]]] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
// CHECK-NEXT: %[[V40:\w+]] = spirv.Load "StorageBuffer" %[[V39]] : f16
// CHECK-NEXT: %[[V41:\w+]] = spirv.AccessChain %[[A]][%[[ZERO]], %[[V14]]] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
// CHECK-NEXT: %[[V42:\w+]] = spirv.Load "StorageBuffer" %[[V41]] : f16
// CHECK-NEXT: %[[X:\w+]] = spirv.CompositeConstruct %[[V40]], %[[V42]] : (f16, f16) -> !spirv.array<2 x f16>
// CHECK-NEXT: %[[V43:\w+]] = spirv.AccessChain %[[A]][%[[ZERO]], %[[V16]]] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
// CHECK-NEXT: %[[V44:\w+]] = spirv.Load "StorageBuffer" %[[V43]] : f16
// CHECK-NEXT: %[[V45:\w+]] = spirv.AccessChain %[[A]][%[[ZERO]], %[[V18]]] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
// CHECK-NEXT: %[[V46:\w+]] = spirv.Load "StorageBuffer" %[[V45]] : f16
// CHECK-NEXT: %[[Y:\w+]] = spirv.CompositeConstruct %[[V44]], %[[V46]] : (f16, f16) -> !spirv.array<2 x f16>
// CHECK-NEXT: %[[C:\w+]] = spirv.Constant [1.000000e+00 : f32, 1.000000e+00 : f32] : !spirv.array<2 x f32>
// CHECK-NEXT: %[[V47:\w+]] = spirv.FConvert %[[V40]] : f16 to f32
// CHECK-NEXT: %[[V48:\w+]] = spirv.AccessChain %[[V24]][%[[V23]]] : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>, i32 -> !spirv.ptr<f32, Workgroup>
// CHECK-NEXT: spirv.Store "Workgroup" %[[V48]], %[[V47]] ["NonPrivatePointer"] : f32
// CHECK-NEXT: %[[V49:\w+]] = spirv.FConvert %[[V42]] : f16 to f32
// CHECK-NEXT: %[[V50:\w+]] = spirv.AccessChain %[[V24]][%[[V27]]] : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>, i32 -> !spirv.ptr<f32, Workgroup>
// CHECK-NEXT: spirv.Store "Workgroup" %[[V50]], %[[V49]] ["NonPrivatePointer"] : f32
// CHECK-NEXT: %[[V51:\w+]] = spirv.FConvert %[[V44]] : f16 to f32
// CHECK-NEXT: %[[V52:\w+]] = spirv.AccessChain %[[V24]][%[[V30]]] : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>, i32 -> !spirv.ptr<f32, Workgroup>
// CHECK-NEXT: spirv.Store "Workgroup" %[[V52]], %[[V51]] ["NonPrivatePointer"] : f32
// CHECK-NEXT: %[[V53:\w+]] = spirv.FConvert %[[V46]] : f16 to f32
// CHECK-NEXT: %[[V54:\w+]] = spirv.AccessChain %[[V24]][%[[V31]]] : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>, i32 -> !spirv.ptr<f32, Workgroup>
// CHECK-NEXT: spirv.Store "Workgroup" %[[V54]], %[[V53]] ["NonPrivatePointer"] : f32
// CHECK-NEXT: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>
// CHECK-NEXT: %[[V55:\w+]] = spirv.CompositeExtract %[[C]][0 : i32] : !spirv.array<2 x f32>
// CHECK-NEXT: %[[V56:\w+]] = spirv.CompositeExtract %[[C]][1 : i32] : !spirv.array<2 x f32>
// CHECK-NEXT: %[[V57:\w+]], %[[V58:\w+]] = spirv.mlir.loop -> f32, f32 {
// CHECK-NEXT: spirv.Branch ^bb1(%[[V37]], %[[V55]], %[[V56]] : i32, f32, f32)
// CHECK-NEXT: ^bb1(%[[V59:\w+]]: i32, %[[V60:\w+]]: f32, %[[V61:\w+]]: f32):
// CHECK-NEXT: %[[V62:\w+]] = spirv.ULessThan %[[V59]], %[[V8]] : i32
// CHECK-NEXT: spirv.BranchConditional %[[V62]], ^bb2, ^bb4
// CHECK-NEXT: ^bb2:
// CHECK-NEXT: %[[V63:\w+]] = spirv.IMul %[[V59]], %[[V8]] : i32
// CHECK-NEXT: %[[V64:\w+]] = spirv.IAdd %[[V33]], %[[V59]] : i32
// CHECK-NEXT: %[[V65:\w+]] = spirv.AccessChain %[[V24]][%[[V64]]] : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>, i32 -> !spirv.ptr<f32, Workgroup>
// CHECK-NEXT: %[[V66:\w+]] = spirv.Load "Workgroup" %[[V65]] ["NonPrivatePointer"] : f32
// CHECK-NEXT: %[[V67:\w+]] = spirv.IAdd %[[V36]], %[[V63]] : i32
// CHECK-NEXT: %[[V68:\w+]] = spirv.AccessChain %[[V24]][%[[V67]]] : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>, i32 -> !spirv.ptr<f32, Workgroup>
// CHECK-NEXT: %[[V69:\w+]] = spirv.Load "Workgroup" %[[V68]] ["NonPrivatePointer"] : f32
// CHECK-NEXT: %[[V70:\w+]] = spirv.FMul %[[V66]], %[[V69]] : f32
// CHECK-NEXT: %[[V71:\w+]] = spirv.FAdd %[[V60]], %[[V70]] : f32
// CHECK-NEXT: %[[V72:\w+]] = spirv.IAdd %[[V35]], %[[V59]] : i32
// CHECK-NEXT: %[[V73:\w+]] = spirv.AccessChain %[[V24]][%[[V72]]] : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>, i32 -> !spirv.ptr<f32, Workgroup>
// CHECK-NEXT: %[[V74:\w+]] = spirv.Load "Workgroup" %[[V73]] ["NonPrivatePointer"] : f32
// CHECK-NEXT: %[[V75:\w+]] = spirv.FMul %[[V74]], %[[V69]] : f32
// CHECK-NEXT: %[[V76:\w+]] = spirv.FAdd %[[V61]], %[[V75]] : f32
// CHECK-NEXT: spirv.Branch ^bb3
// CHECK-NEXT: ^bb3:
// CHECK-NEXT: %[[V77:\w+]] = spirv.IAdd %[[V59]], %[[V38]] : i32
// CHECK-NEXT: spirv.Branch ^bb1(%[[V77]], %[[V71]], %[[V76]] : i32, f32, f32)
// CHECK-NEXT: ^bb4:
// CHECK-NEXT: spirv.mlir.merge %[[V60]], %[[V61]] : f32, f32
// CHECK:      spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>
// CHECK-NEXT: %[[R:\w+]] = spirv.CompositeConstruct %[[V57]], %[[V58]] : (f32, f32) -> !spirv.array<2 x f32>
// CHECK-NEXT: %[[V78:\w+]] = spirv.CompositeExtract %[[C]][0 : i32] : !spirv.array<2 x f32>
// CHECK-NEXT: %[[V79:\w+]] = spirv.CompositeExtract %[[C]][1 : i32] : !spirv.array<2 x f32>
// CHECK-NEXT: %[[V80:\w+]] = spirv.FAdd %[[V57]], %[[V78]] : f32
// CHECK-NEXT: %[[V81:\w+]] = spirv.FAdd %[[V58]], %[[V79]] : f32
// CHECK-NEXT: %[[S:\w+]] = spirv.CompositeConstruct %[[V80]], %[[V81]] : (f32, f32) -> !spirv.array<2 x f32>
// CHECK-NEXT: %[[V82:\w+]] = spirv.AccessChain %[[D]][%[[ZERO]], %[[V10]]] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
// CHECK-NEXT: spirv.Store "StorageBuffer" %[[V82]], %[[V80]] : f32
// CHECK-NEXT: %[[V83:\w+]] = spirv.AccessChain %[[D]][%[[ZERO]], %[[V14]]] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
// CHECK-NEXT: spirv.Store "StorageBuffer" %[[V83]], %[[V81]] : f32
// CHECK-NEXT: spirv.Return
// CHECK:      spirv.EntryPoint "GLCompute" @main, @a, @d
// CHECK-NEXT: spirv.ExecutionMode @main "LocalSize", 64, 1, 1
