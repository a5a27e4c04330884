// RUN: XDSL_ROUNDTRIP

// EXTENSION: SPV_NV_cooperative_matrix2.
spirv.module Logical Vulkan {
  spirv.func @add(%a: f32, %b: f32) -> f32 "None" {
    %0 = spirv.FAdd %a, %b : f32
    spirv.ReturnValue %0 : f32
  }
  spirv.func @scale(%row: i32, %column: i32, %x: f32, %by: f32) -> f32 "None" {
    %0 = spirv.FMul %x, %by : f32
    spirv.ReturnValue %0 : f32
  }
  spirv.func @main() "None" {
    %one = spirv.Constant 1.0 : f32
    %i = spirv.Constant 0 : i32
    %acc = spirv.Constant dense<2.0> : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>
    %0 = spirv.NV.CooperativeMatrixConvert %acc : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> to !spirv.coopmatrix<16x8xf32, Workgroup, MatrixA>
    %6 = spirv.FConvert %acc : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> to !spirv.coopmatrix<16x8xf16, Workgroup, MatrixB>
    %1 = spirv.NV.CooperativeMatrixTranspose %acc : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> to !spirv.coopmatrix<8x16xf32, Workgroup, MatrixB>
    %2 = spirv.NV.CooperativeMatrixReduce <Row> %acc, @add : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> -> !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>
    %3 = spirv.NV.CooperativeMatrixReduce <Row|Column> %acc, @add : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> -> !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>
    %4 = spirv.NV.CooperativeMatrixReduce <2x2> %acc, @add : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> -> !spirv.coopmatrix<8x4xf32, Workgroup, MatrixAcc>
    %5 = spirv.NV.CooperativeMatrixPerElementOp %acc, @scale(%one) : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>, f32 -> !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>
    %7 = spirv.NV.CooperativeMatrixPerElementOp %acc, @scale(%5) : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>, !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> -> !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @add(%a: f32, %b: f32) -> f32 "None" {
// CHECK-NEXT:       %0 = spirv.FAdd %a, %b : f32
// CHECK-NEXT:       spirv.ReturnValue %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.func @scale(%row: i32, %column: i32, %x: f32, %by: f32) -> f32 "None" {
// CHECK-NEXT:       %0 = spirv.FMul %x, %by : f32
// CHECK-NEXT:       spirv.ReturnValue %0 : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %one = spirv.Constant 1.000000e+00 : f32
// CHECK-NEXT:       %i = spirv.Constant 0 : i32
// CHECK-NEXT:       %acc = spirv.Constant dense<2.000000e+00> : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>
// CHECK-NEXT:       %0 = spirv.NV.CooperativeMatrixConvert %acc : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> to !spirv.coopmatrix<16x8xf32, Workgroup, MatrixA>
// CHECK-NEXT:       %1 = spirv.FConvert %acc : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> to !spirv.coopmatrix<16x8xf16, Workgroup, MatrixB>
// CHECK-NEXT:       %2 = spirv.NV.CooperativeMatrixTranspose %acc : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> to !spirv.coopmatrix<8x16xf32, Workgroup, MatrixB>
// CHECK-NEXT:       %3 = spirv.NV.CooperativeMatrixReduce <Row> %acc, @add : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> -> !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>
// CHECK-NEXT:       %4 = spirv.NV.CooperativeMatrixReduce <Row|Column> %acc, @add : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> -> !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>
// CHECK-NEXT:       %5 = spirv.NV.CooperativeMatrixReduce <2x2> %acc, @add : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> -> !spirv.coopmatrix<8x4xf32, Workgroup, MatrixAcc>
// CHECK-NEXT:       %6 = spirv.NV.CooperativeMatrixPerElementOp %acc, @scale(%one) : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>, f32 -> !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>
// CHECK-NEXT:       %7 = spirv.NV.CooperativeMatrixPerElementOp %acc, @scale(%6) : !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>, !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc> -> !spirv.coopmatrix<16x8xf32, Workgroup, MatrixAcc>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: SPV_NV_tensor_addressing, and loads and stores through it.
spirv.module PhysicalStorageBuffer64 Vulkan {
  spirv.GlobalVariable @a bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
  spirv.func @decode(%block: !spirv.ptr<f16, PhysicalStorageBuffer>, %at: !spirv.array<2 x i32>, %in: !spirv.array<2 x i32>) -> f16 "None" {
    %0 = spirv.Load "PhysicalStorageBuffer" %block ["Aligned", 2] : f16
    spirv.ReturnValue %0 : f16
  }
  spirv.func @main() "None" {
    %0 = spirv.Constant 0 : i32
    %n = spirv.Constant 16 : i32
    %p = spirv.mlir.addressof @a : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
    %e = spirv.AccessChain %p[%0, %0] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
    %m = spirv.ConstantNull : !spirv.coopmatrix<16x16xf16, Workgroup, MatrixA>
    %l = spirv.NV.CreateTensorLayout : !spirv.NV.tensor_layout<2, Constant>
    %l1 = spirv.NV.TensorLayoutSetDimension %l[%n, %n] : !spirv.NV.tensor_layout<2, Constant>, i32, i32
    %l2 = spirv.NV.TensorLayoutSetStride %l1[%n, %n] : !spirv.NV.tensor_layout<2, Constant>, i32, i32
    %l3 = spirv.NV.TensorLayoutSlice %l2[%0, %n, %0, %n] : !spirv.NV.tensor_layout<2, Constant>, i32, i32, i32, i32
    %l4 = spirv.NV.TensorLayoutSetClampValue %l3, %0 : !spirv.NV.tensor_layout<2, Constant>, i32
    %l5 = spirv.NV.TensorLayoutSetBlockSize %l4[%n, %n] : !spirv.NV.tensor_layout<2, Constant>, i32, i32
    %v = spirv.NV.CreateTensorView : !spirv.NV.tensor_view<2, true, 1, 0>
    %v1 = spirv.NV.TensorViewSetDimension %v[%n, %n] : !spirv.NV.tensor_view<2, true, 1, 0>, i32, i32
    %v2 = spirv.NV.TensorViewSetStride %v1[%n, %n] : !spirv.NV.tensor_view<2, true, 1, 0>, i32, i32
    %v3 = spirv.NV.TensorViewSetClip %v2[%0, %n, %0, %n] : !spirv.NV.tensor_view<2, true, 1, 0>, i32, i32, i32, i32
    %x = spirv.NV.CooperativeMatrixLoadTensor %e, %m, %l3 : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Workgroup, MatrixA>, !spirv.NV.tensor_layout<2, Constant>
    %y = spirv.NV.CooperativeMatrixLoadTensor %e, %m, %l3 view(%v3) ["Aligned", 16] : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Workgroup, MatrixA>, !spirv.NV.tensor_layout<2, Constant>, !spirv.NV.tensor_view<2, true, 1, 0>
    %z = spirv.NV.CooperativeMatrixLoadTensor %e, %m, %l5 decode(@decode) : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Workgroup, MatrixA>, !spirv.NV.tensor_layout<2, Constant>
    spirv.NV.CooperativeMatrixStoreTensor %e, %y, %l3 : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Workgroup, MatrixA>, !spirv.NV.tensor_layout<2, Constant>
    spirv.NV.CooperativeMatrixStoreTensor %e, %y, %l3 view(%v3) ["MakePointerAvailable|NonPrivatePointer", scope(<Workgroup>)] : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Workgroup, MatrixA>, !spirv.NV.tensor_layout<2, Constant>, !spirv.NV.tensor_view<2, true, 1, 0>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module PhysicalStorageBuffer64 Vulkan {
// CHECK-NEXT:     spirv.GlobalVariable @a bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
// CHECK-NEXT:     spirv.func @decode(%block: !spirv.ptr<f16, PhysicalStorageBuffer>, %at: !spirv.array<2 x i32>, %in: !spirv.array<2 x i32>) -> f16 "None" {
// CHECK-NEXT:       %0 = spirv.Load "PhysicalStorageBuffer" %block ["Aligned", 2] : f16
// CHECK-NEXT:       spirv.ReturnValue %0 : f16
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %0 = spirv.Constant 0 : i32
// CHECK-NEXT:       %n = spirv.Constant 16 : i32
// CHECK-NEXT:       %p = spirv.mlir.addressof @a : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
// CHECK-NEXT:       %e = spirv.AccessChain %p[%0, %0] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f16, StorageBuffer>
// CHECK-NEXT:       %m = spirv.ConstantNull : !spirv.coopmatrix<16x16xf16, Workgroup, MatrixA>
// CHECK-NEXT:       %l = spirv.NV.CreateTensorLayout : !spirv.NV.tensor_layout<2, Constant>
// CHECK-NEXT:       %l1 = spirv.NV.TensorLayoutSetDimension %l[%n, %n] : !spirv.NV.tensor_layout<2, Constant>, i32, i32
// CHECK-NEXT:       %l2 = spirv.NV.TensorLayoutSetStride %l1[%n, %n] : !spirv.NV.tensor_layout<2, Constant>, i32, i32
// CHECK-NEXT:       %l3 = spirv.NV.TensorLayoutSlice %l2[%0, %n, %0, %n] : !spirv.NV.tensor_layout<2, Constant>, i32, i32, i32, i32
// CHECK-NEXT:       %l4 = spirv.NV.TensorLayoutSetClampValue %l3, %0 : !spirv.NV.tensor_layout<2, Constant>, i32
// CHECK-NEXT:       %l5 = spirv.NV.TensorLayoutSetBlockSize %l4[%n, %n] : !spirv.NV.tensor_layout<2, Constant>, i32, i32
// CHECK-NEXT:       %v = spirv.NV.CreateTensorView : !spirv.NV.tensor_view<2, true, 1, 0>
// CHECK-NEXT:       %v1 = spirv.NV.TensorViewSetDimension %v[%n, %n] : !spirv.NV.tensor_view<2, true, 1, 0>, i32, i32
// CHECK-NEXT:       %v2 = spirv.NV.TensorViewSetStride %v1[%n, %n] : !spirv.NV.tensor_view<2, true, 1, 0>, i32, i32
// CHECK-NEXT:       %v3 = spirv.NV.TensorViewSetClip %v2[%0, %n, %0, %n] : !spirv.NV.tensor_view<2, true, 1, 0>, i32, i32, i32, i32
// CHECK-NEXT:       %x = spirv.NV.CooperativeMatrixLoadTensor %e, %m, %l3 : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Workgroup, MatrixA>, !spirv.NV.tensor_layout<2, Constant>
// CHECK-NEXT:       %y = spirv.NV.CooperativeMatrixLoadTensor %e, %m, %l3 view(%v3) ["Aligned", 16] : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Workgroup, MatrixA>, !spirv.NV.tensor_layout<2, Constant>, !spirv.NV.tensor_view<2, true, 1, 0>
// CHECK-NEXT:       %z = spirv.NV.CooperativeMatrixLoadTensor %e, %m, %l5 decode(@decode) : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Workgroup, MatrixA>, !spirv.NV.tensor_layout<2, Constant>
// CHECK-NEXT:       spirv.NV.CooperativeMatrixStoreTensor %e, %y, %l3 : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Workgroup, MatrixA>, !spirv.NV.tensor_layout<2, Constant>
// CHECK-NEXT:       spirv.NV.CooperativeMatrixStoreTensor %e, %y, %l3 view(%v3) ["MakePointerAvailable|NonPrivatePointer", scope(<Workgroup>)] : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Workgroup, MatrixA>, !spirv.NV.tensor_layout<2, Constant>, !spirv.NV.tensor_view<2, true, 1, 0>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: specialized ranks and clamp modes, 8-bit floats.
spirv.module Logical Vulkan {
  spirv.SpecConstant @rank spec_id(0) = 2 : i32
  spirv.SpecConstant @mode spec_id(1) = 1 : i32
  spirv.func @main() "None" {
    %0 = spirv.NV.CreateTensorLayout : !spirv.NV.tensor_layout<@rank, @mode>
    %1 = spirv.NV.CreateTensorLayout : !spirv.NV.tensor_layout<3, ClampToEdge>
    %2 = spirv.NV.CreateTensorView : !spirv.NV.tensor_view<3, false, 0, 2, 1>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.SpecConstant @rank spec_id(0) = 2 : i32
// CHECK-NEXT:     spirv.SpecConstant @mode spec_id(1) = 1 : i32
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %0 = spirv.NV.CreateTensorLayout : !spirv.NV.tensor_layout<@rank, @mode>
// CHECK-NEXT:       %1 = spirv.NV.CreateTensorLayout : !spirv.NV.tensor_layout<3, ClampToEdge>
// CHECK-NEXT:       %2 = spirv.NV.CreateTensorView : !spirv.NV.tensor_view<3, false, 0, 2, 1>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: SPV_EXT_cooperative_matrix_maintenance1.
// SINCE: SPIRV-Tools 2026.2
spirv.module Logical Vulkan {
  spirv.func @main() "None" {
    %i = spirv.Constant 0 : i32
    %acc = spirv.Constant dense<2.0> : !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
    %0 = spirv.EXT.CooperativeMatrixGetCoordinate %acc, %i : !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>, i32 -> vector<2xi32>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %i = spirv.Constant 0 : i32
// CHECK-NEXT:       %acc = spirv.Constant dense<2.000000e+00> : !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>
// CHECK-NEXT:       %0 = spirv.EXT.CooperativeMatrixGetCoordinate %acc, %i : !spirv.coopmatrix<16x8xf32, Subgroup, MatrixAcc>, i32 -> vector<2xi32>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }
