// RUN: XDSL_ROUNDTRIP

// EXTENSION: SPV_ARM_tensors.
spirv.module Logical Vulkan {
  spirv.GlobalVariable @t bind(0, 0) : !spirv.ptr<!spirv.arm.tensor<?x?xf32>, UniformConstant>
  spirv.func @main() "None" {
    %zero = spirv.Constant 0.0 : f32
    %d = spirv.Constant 1 : i32
    %at = spirv.Constant dense<[1, 2]> : tensor<2xi32> : !spirv.array<2 x i32>
    %p = spirv.mlir.addressof @t : !spirv.ptr<!spirv.arm.tensor<?x?xf32>, UniformConstant>
    %t = spirv.Load "UniformConstant" %p : !spirv.arm.tensor<?x?xf32>
    %0 = spirv.ARM.TensorRead %t[%at] : !spirv.arm.tensor<?x?xf32>, !spirv.array<2 x i32> -> f32
    %1 = spirv.ARM.TensorRead %t[%at], <OutOfBoundsValueARM> outside(%zero) : !spirv.arm.tensor<?x?xf32>, !spirv.array<2 x i32>, f32 -> !spirv.array<4 x f32>
    %2 = spirv.ARM.TensorRead %t[%at], <MakeElementVisibleARM|NonPrivateElementARM> visible(<Workgroup>) : !spirv.arm.tensor<?x?xf32>, !spirv.array<2 x i32> -> f32
    spirv.ARM.TensorWrite %t[%at], %0 : !spirv.arm.tensor<?x?xf32>, !spirv.array<2 x i32>, f32
    spirv.ARM.TensorWrite %t[%at], %1, <MakeElementAvailableARM|NonPrivateElementARM> available(<Workgroup>) : !spirv.arm.tensor<?x?xf32>, !spirv.array<2 x i32>, !spirv.array<4 x f32>
    %3 = spirv.ARM.TensorQuerySize %t[%d] : !spirv.arm.tensor<?x?xf32>, i32 -> i32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @t
  spirv.ExecutionMode @main "LocalSize", 1, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.GlobalVariable @t bind(0, 0) : !spirv.ptr<!spirv.arm.tensor<?x?xf32>, UniformConstant>
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %zero = spirv.Constant 0.000000e+00 : f32
// CHECK-NEXT:       %d = spirv.Constant 1 : i32
// CHECK-NEXT:       %at = spirv.Constant dense<[1, 2]> : tensor<2xi32> : !spirv.array<2 x i32>
// CHECK-NEXT:       %p = spirv.mlir.addressof @t : !spirv.ptr<!spirv.arm.tensor<?x?xf32>, UniformConstant>
// CHECK-NEXT:       %t = spirv.Load "UniformConstant" %p : !spirv.arm.tensor<?x?xf32>
// CHECK-NEXT:       %0 = spirv.ARM.TensorRead %t[%at] : !spirv.arm.tensor<?x?xf32>, !spirv.array<2 x i32> -> f32
// CHECK-NEXT:       %1 = spirv.ARM.TensorRead %t[%at], <OutOfBoundsValueARM> outside(%zero) : !spirv.arm.tensor<?x?xf32>, !spirv.array<2 x i32>, f32 -> !spirv.array<4 x f32>
// CHECK-NEXT:       %2 = spirv.ARM.TensorRead %t[%at], <MakeElementVisibleARM|NonPrivateElementARM> visible(<Workgroup>) : !spirv.arm.tensor<?x?xf32>, !spirv.array<2 x i32> -> f32
// CHECK-NEXT:       spirv.ARM.TensorWrite %t[%at], %0 : !spirv.arm.tensor<?x?xf32>, !spirv.array<2 x i32>, f32
// CHECK-NEXT:       spirv.ARM.TensorWrite %t[%at], %1, <MakeElementAvailableARM|NonPrivateElementARM> available(<Workgroup>) : !spirv.arm.tensor<?x?xf32>, !spirv.array<2 x i32>, !spirv.array<4 x f32>
// CHECK-NEXT:       %3 = spirv.ARM.TensorQuerySize %t[%d] : !spirv.arm.tensor<?x?xf32>, i32 -> i32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main, @t
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 1, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

spirv.module Logical Vulkan {
  spirv.GlobalVariable @t bind(0, 0) : !spirv.ptr<!spirv.arm.tensor<1x16xf32>, UniformConstant>
  spirv.GlobalVariable @u bind(0, 1) : !spirv.ptr<!spirv.arm.tensor<?x?x?xi32>, UniformConstant>
  spirv.func @main() "None" {
    %p = spirv.mlir.addressof @t : !spirv.ptr<!spirv.arm.tensor<1x16xf32>, UniformConstant>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @t
  spirv.ExecutionMode @main "LocalSize", 1, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.GlobalVariable @t bind(0, 0) : !spirv.ptr<!spirv.arm.tensor<1x16xf32>, UniformConstant>
// CHECK-NEXT:     spirv.GlobalVariable @u bind(0, 1) : !spirv.ptr<!spirv.arm.tensor<?x?x?xi32>, UniformConstant>
// CHECK-NEXT:     spirv.func @main() "None" {
// CHECK-NEXT:       %p = spirv.mlir.addressof @t : !spirv.ptr<!spirv.arm.tensor<1x16xf32>, UniformConstant>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @main, @t
// CHECK-NEXT:     spirv.ExecutionMode @main "LocalSize", 1, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }
