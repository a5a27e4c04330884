// RUN: xdsl-opt %s -p 'spirv-split-entry-points' --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p 'spirv-split-entry-points,spirv-split-entry-points' --split-input-file | filecheck %s

// Each entry point gets a module with all that it uses, and launches refer to it. The host's symbols are kept.
// CHECK:      func.func @second
// CHECK:      kernel = @first::@first
// CHECK:      kernel = @second_1::@second
// CHECK:      spirv.module @first Logical Vulkan {
// CHECK-NEXT:   spirv.SpecConstant @length spec_id(1) = 4 : i32
// CHECK-NEXT:   spirv.GlobalVariable @shared : !spirv.ptr<!spirv.array<@length x f32>, Workgroup>
// CHECK-NEXT:   spirv.func @helper() "None" {
// CHECK-NEXT:     %{{.*}} = spirv.mlir.addressof @shared
// CHECK-NEXT:     spirv.Return
// CHECK-NEXT:   }
// CHECK-NEXT:   spirv.func @first() "None" {
// CHECK-NEXT:     spirv.FunctionCall @helper() : () -> ()
// CHECK-NEXT:     spirv.Return
// CHECK-NEXT:   }
// CHECK-NEXT:   spirv.EntryPoint "GLCompute" @first, @shared
// CHECK-NEXT:   spirv.ExecutionMode @first "LocalSize", 32, 1, 1
// CHECK-NEXT: }
// CHECK-NEXT: spirv.module @second_1 Logical Vulkan {
// CHECK-NEXT:   spirv.SpecConstant @width spec_id(0) = 8 : i32
// CHECK-NEXT:   spirv.func @second() "None" {
// CHECK-NEXT:     spirv.Return
// CHECK-NEXT:   }
// CHECK-NEXT:   spirv.EntryPoint "GLCompute" @second
// CHECK-NEXT:   spirv.ExecutionMode @second "LocalSizeId", @width, 1, 1
// CHECK-NEXT: }
// CHECK-NOT:  @unused
func.func @second() {
  %0 = arith.constant 1 : index
  "gpu.launch_func"(%0, %0, %0, %0, %0, %0) <{kernel = @kernels::@first, operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>}> : (index, index, index, index, index, index) -> ()
  "gpu.launch_func"(%0, %0, %0, %0, %0, %0) <{kernel = @kernels::@second, operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>}> : (index, index, index, index, index, index) -> ()
  func.return
}
spirv.module @kernels Logical Vulkan {
  spirv.SpecConstant @width spec_id(0) = 8 : i32
  spirv.SpecConstant @length spec_id(1) = 4 : i32
  spirv.SpecConstant @unused spec_id(2) = 4 : i32
  spirv.GlobalVariable @shared : !spirv.ptr<!spirv.array<@length x f32>, Workgroup>
  spirv.func @helper() "None" {
    %p = spirv.mlir.addressof @shared : !spirv.ptr<!spirv.array<@length x f32>, Workgroup>
    spirv.Return
  }
  spirv.func @first() "None" {
    spirv.FunctionCall @helper() : () -> ()
    spirv.Return
  }
  spirv.func @second() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @first, @shared
  spirv.ExecutionMode @first "LocalSize", 32, 1, 1
  spirv.EntryPoint "GLCompute" @second
  spirv.ExecutionMode @second "LocalSizeId", @width, 1, 1
}

// -----

// A module with one entry point keeps its name, and a library without entry points is unchanged.
// CHECK: spirv.module Logical GLSL450 {
// CHECK: spirv.module @library Logical GLSL450 {
spirv.module Logical GLSL450 {
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 1, 1, 1
}
spirv.module @library Logical GLSL450 {
  spirv.func @main() "None" {
    spirv.Return
  }
}
