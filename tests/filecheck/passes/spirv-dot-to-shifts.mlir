// RUN: xdsl-opt %s -p 'spirv-dot-to-shifts' | filecheck %s

spirv.module Logical Vulkan {
  spirv.func @dots(%a: i32, %b: i32, %v: vector<2xi16>, %acc: i8, %x: vector<2xsi8>, %y: vector<2xui8>, %acc32: i32) "None" {
    %0 = spirv.SDot %a, %b, <PackedVectorFormat4x8Bit> : i32 -> i32
    %1 = spirv.UDot %v, %v : vector<2xi16> -> i64
    %2 = spirv.SUDotAccSat %x, %y, %acc : vector<2xsi8>, vector<2xui8> -> i8
    %3 = spirv.SDotAccSat %a, %b, %acc32, <PackedVectorFormat4x8Bit> : i32 -> i32
    spirv.Return
  }
}

// CHECK:      spirv.func @dots(%[[A:\w+]]: i32, %[[B:\w+]]: i32, %[[V:\w+]]: vector<2xi16>, %[[ACC:\w+]]: i8, %[[X:\w+]]: vector<2xsi8>, %[[Y:\w+]]: vector<2xui8>, %[[ACC32:\w+]]: i32) "None" {
// CHECK-NEXT: %[[V0:\w+]] = spirv.Constant 0 : i32
// CHECK-NEXT: %[[V1:\w+]] = spirv.Constant 8 : i32
// CHECK-NEXT: %[[V2:\w+]] = spirv.Constant 16 : i32
// CHECK-NEXT: %[[V3:\w+]] = spirv.Constant 24 : i32
// CHECK-NEXT: %[[V4:\w+]] = spirv.Constant 127 : i32
// CHECK-NEXT: %[[V5:\w+]] = spirv.Constant -128 : i32
// CHECK-NEXT: %[[V6:\w+]] = spirv.Constant -2147483648 : i32
// CHECK-NEXT: %[[V7:\w+]] = spirv.Constant 2147483647 : i32
// CHECK-NEXT: %[[V8:\w+]] = spirv.BitFieldSExtract %[[A]], %[[V0]], %[[V1]] : i32, i32, i32
// CHECK-NEXT: %[[V9:\w+]] = spirv.BitFieldSExtract %[[A]], %[[V1]], %[[V1]] : i32, i32, i32
// CHECK-NEXT: %[[V10:\w+]] = spirv.BitFieldSExtract %[[A]], %[[V2]], %[[V1]] : i32, i32, i32
// CHECK-NEXT: %[[V11:\w+]] = spirv.ShiftRightArithmetic %[[A]], %[[V3]] : i32, i32
// CHECK-NEXT: %[[V12:\w+]] = spirv.BitFieldSExtract %[[B]], %[[V0]], %[[V1]] : i32, i32, i32
// CHECK-NEXT: %[[V13:\w+]] = spirv.BitFieldSExtract %[[B]], %[[V1]], %[[V1]] : i32, i32, i32
// CHECK-NEXT: %[[V14:\w+]] = spirv.BitFieldSExtract %[[B]], %[[V2]], %[[V1]] : i32, i32, i32
// CHECK-NEXT: %[[V15:\w+]] = spirv.ShiftRightArithmetic %[[B]], %[[V3]] : i32, i32
// CHECK-NEXT: %[[V16:\w+]] = spirv.IMul %[[V8]], %[[V12]] : i32
// CHECK-NEXT: %[[V17:\w+]] = spirv.IMul %[[V9]], %[[V13]] : i32
// CHECK-NEXT: %[[V18:\w+]] = spirv.IAdd %[[V16]], %[[V17]] : i32
// CHECK-NEXT: %[[V19:\w+]] = spirv.IMul %[[V10]], %[[V14]] : i32
// CHECK-NEXT: %[[V20:\w+]] = spirv.IAdd %[[V18]], %[[V19]] : i32
// CHECK-NEXT: %[[V21:\w+]] = spirv.IMul %[[V11]], %[[V15]] : i32
// CHECK-NEXT: %[[V22:\w+]] = spirv.IAdd %[[V20]], %[[V21]] : i32
// CHECK-NEXT: %[[V23:\w+]] = spirv.UConvert %[[V]] : vector<2xi16> to vector<2xi64>
// CHECK-NEXT: %[[V24:\w+]] = spirv.CompositeExtract %[[V23]][0 : i32] : vector<2xi64>
// CHECK-NEXT: %[[V25:\w+]] = spirv.CompositeExtract %[[V23]][1 : i32] : vector<2xi64>
// CHECK-NEXT: %[[V26:\w+]] = spirv.UConvert %[[V]] : vector<2xi16> to vector<2xi64>
// CHECK-NEXT: %[[V27:\w+]] = spirv.CompositeExtract %[[V26]][0 : i32] : vector<2xi64>
// CHECK-NEXT: %[[V28:\w+]] = spirv.CompositeExtract %[[V26]][1 : i32] : vector<2xi64>
// CHECK-NEXT: %[[V29:\w+]] = spirv.IMul %[[V24]], %[[V27]] : i64
// CHECK-NEXT: %[[V30:\w+]] = spirv.IMul %[[V25]], %[[V28]] : i64
// CHECK-NEXT: %[[V31:\w+]] = spirv.IAdd %[[V29]], %[[V30]] : i64
// CHECK-NEXT: %[[V32:\w+]] = spirv.SConvert %[[X]] : vector<2xsi8> to vector<2xi32>
// CHECK-NEXT: %[[V33:\w+]] = spirv.CompositeExtract %[[V32]][0 : i32] : vector<2xi32>
// CHECK-NEXT: %[[V34:\w+]] = spirv.CompositeExtract %[[V32]][1 : i32] : vector<2xi32>
// CHECK-NEXT: %[[V35:\w+]] = spirv.UConvert %[[Y]] : vector<2xui8> to vector<2xi32>
// CHECK-NEXT: %[[V36:\w+]] = spirv.CompositeExtract %[[V35]][0 : i32] : vector<2xi32>
// CHECK-NEXT: %[[V37:\w+]] = spirv.CompositeExtract %[[V35]][1 : i32] : vector<2xi32>
// CHECK-NEXT: %[[V38:\w+]] = spirv.IMul %[[V33]], %[[V36]] : i32
// CHECK-NEXT: %[[V39:\w+]] = spirv.IMul %[[V34]], %[[V37]] : i32
// CHECK-NEXT: %[[V40:\w+]] = spirv.IAdd %[[V38]], %[[V39]] : i32
// CHECK-NEXT: %[[V41:\w+]] = spirv.SConvert %[[V40]] : i32 to i8
// CHECK-NEXT: %[[V42:\w+]] = spirv.SConvert %[[V41]] : i8 to i32
// CHECK-NEXT: %[[V43:\w+]] = spirv.SConvert %[[ACC]] : i8 to i32
// CHECK-NEXT: %[[V44:\w+]] = spirv.IAdd %[[V42]], %[[V43]] : i32
// CHECK-NEXT: %[[V45:\w+]] = spirv.SLessThan %[[V4]], %[[V44]] : i32
// CHECK-NEXT: %[[V46:\w+]] = spirv.Select %[[V45]], %[[V4]], %[[V44]] : i1, i32
// CHECK-NEXT: %[[V47:\w+]] = spirv.SLessThan %[[V46]], %[[V5]] : i32
// CHECK-NEXT: %[[V48:\w+]] = spirv.Select %[[V47]], %[[V5]], %[[V46]] : i1, i32
// CHECK-NEXT: %[[V49:\w+]] = spirv.SConvert %[[V48]] : i32 to i8
// CHECK-NEXT: %[[V50:\w+]] = spirv.BitFieldSExtract %[[A]], %[[V0]], %[[V1]] : i32, i32, i32
// CHECK-NEXT: %[[V51:\w+]] = spirv.BitFieldSExtract %[[A]], %[[V1]], %[[V1]] : i32, i32, i32
// CHECK-NEXT: %[[V52:\w+]] = spirv.BitFieldSExtract %[[A]], %[[V2]], %[[V1]] : i32, i32, i32
// CHECK-NEXT: %[[V53:\w+]] = spirv.ShiftRightArithmetic %[[A]], %[[V3]] : i32, i32
// CHECK-NEXT: %[[V54:\w+]] = spirv.BitFieldSExtract %[[B]], %[[V0]], %[[V1]] : i32, i32, i32
// CHECK-NEXT: %[[V55:\w+]] = spirv.BitFieldSExtract %[[B]], %[[V1]], %[[V1]] : i32, i32, i32
// CHECK-NEXT: %[[V56:\w+]] = spirv.BitFieldSExtract %[[B]], %[[V2]], %[[V1]] : i32, i32, i32
// CHECK-NEXT: %[[V57:\w+]] = spirv.ShiftRightArithmetic %[[B]], %[[V3]] : i32, i32
// CHECK-NEXT: %[[V58:\w+]] = spirv.IMul %[[V50]], %[[V54]] : i32
// CHECK-NEXT: %[[V59:\w+]] = spirv.IMul %[[V51]], %[[V55]] : i32
// CHECK-NEXT: %[[V60:\w+]] = spirv.IAdd %[[V58]], %[[V59]] : i32
// CHECK-NEXT: %[[V61:\w+]] = spirv.IMul %[[V52]], %[[V56]] : i32
// CHECK-NEXT: %[[V62:\w+]] = spirv.IAdd %[[V60]], %[[V61]] : i32
// CHECK-NEXT: %[[V63:\w+]] = spirv.IMul %[[V53]], %[[V57]] : i32
// CHECK-NEXT: %[[V64:\w+]] = spirv.IAdd %[[V62]], %[[V63]] : i32
// CHECK-NEXT: %[[V65:\w+]] = spirv.IAdd %[[V64]], %[[ACC32]] : i32
// CHECK-NEXT: %[[V66:\w+]] = spirv.BitwiseXor %[[V64]], %[[V65]] : i32
// CHECK-NEXT: %[[V67:\w+]] = spirv.BitwiseXor %[[ACC32]], %[[V65]] : i32
// CHECK-NEXT: %[[V68:\w+]] = spirv.BitwiseAnd %[[V66]], %[[V67]] : i32
// CHECK-NEXT: %[[V69:\w+]] = spirv.SLessThan %[[V68]], %[[V0]] : i32
// CHECK-NEXT: %[[V70:\w+]] = spirv.SLessThan %[[V64]], %[[V0]] : i32
// CHECK-NEXT: %[[V71:\w+]] = spirv.Select %[[V70]], %[[V6]], %[[V7]] : i1, i32
// CHECK-NEXT: %[[V72:\w+]] = spirv.Select %[[V69]], %[[V71]], %[[V65]] : i1, i32
// CHECK-NEXT: spirv.Return
