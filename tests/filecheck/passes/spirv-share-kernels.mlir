// RUN: xdsl-opt %s -p 'spirv-share-kernels' | filecheck %s

// The kernels differ in a scale, which becomes an argument. The bound of a comparison of indices stays constant.

// CHECK: func.func @main
// CHECK: gpu.launch_func
// CHECK-SAME: kernel = @f::@f
// CHECK-SAME: schedule.numbers = [2.500000e-01 : f32]
// CHECK: gpu.launch_func
// CHECK-SAME: kernel = @f::@f
// CHECK-SAME: schedule.numbers = [5.000000e-01 : f32]
// CHECK: spirv.module @f
// CHECK: spirv.GlobalVariable @f_numbers {{.*}} : !spirv.ptr<!spirv.struct<(f32 [0]), Block>, PushConstant>
// CHECK: %[[A:.*]] = spirv.mlir.addressof @f_numbers
// CHECK: %[[P:.*]] = spirv.AccessChain %[[A]]
// CHECK: %[[N:.*]] = spirv.Load "PushConstant" %[[P]] : f32
// CHECK: spirv.Constant 3 : i32
// CHECK: spirv.FMul %{{.*}}, %[[N]] : f32
// CHECK: spirv.EntryPoint "GLCompute" @f, @f_arg_0, @f_numbers
// CHECK-NOT: spirv.module @g
// CHECK: spirv.module @h
func.func @main(%a: memref<8xf32>) {
  %one = arith.constant 1 : index
  "gpu.launch_func"(%one, %one, %one, %one, %one, %one, %a) <{kernel = @f::@f, operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0>}> : (index, index, index, index, index, index, memref<8xf32>) -> ()
  "gpu.launch_func"(%one, %one, %one, %one, %one, %one, %a) <{kernel = @g::@g, operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0>}> : (index, index, index, index, index, index, memref<8xf32>) -> ()
  "gpu.launch_func"(%one, %one, %one, %one, %one, %one, %a) <{kernel = @h::@h, operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0>}> : (index, index, index, index, index, index, memref<8xf32>) -> ()
  func.return
}
spirv.module @f Logical Vulkan {
  spirv.GlobalVariable @f_arg_0 bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
  spirv.func @f() "None" {
    %0 = spirv.mlir.addressof @f_arg_0 : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
    %zero = spirv.Constant 0 : i32
    %place = spirv.Constant 3 : i32
    %scale = spirv.Constant 0.25 : f32
    %p = spirv.AccessChain %0[%zero, %place] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
    %v = spirv.Load "StorageBuffer" %p : f32
    %w = spirv.FMul %v, %scale : f32
    spirv.Store "StorageBuffer" %p, %w : f32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @f, @f_arg_0
  spirv.ExecutionMode @f "LocalSize", 1, 1, 1
}
spirv.module @g Logical Vulkan {
  spirv.GlobalVariable @g_arg_0 bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
  spirv.func @g() "None" {
    %0 = spirv.mlir.addressof @g_arg_0 : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
    %zero = spirv.Constant 0 : i32
    %place = spirv.Constant 3 : i32
    %scale = spirv.Constant 0.5 : f32
    %p = spirv.AccessChain %0[%zero, %place] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
    %v = spirv.Load "StorageBuffer" %p : f32
    %w = spirv.FMul %v, %scale : f32
    spirv.Store "StorageBuffer" %p, %w : f32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @g, @g_arg_0
  spirv.ExecutionMode @g "LocalSize", 1, 1, 1
}
spirv.module @h Logical Vulkan {
  spirv.GlobalVariable @h_arg_0 bind(0, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
  spirv.func @h() "None" {
    %0 = spirv.mlir.addressof @h_arg_0 : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>
    %zero = spirv.Constant 0 : i32
    %place = spirv.Constant 4 : i32
    %scale = spirv.Constant 0.5 : f32
    %p = spirv.AccessChain %0[%zero, %place] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
    %v = spirv.Load "StorageBuffer" %p : f32
    %w = spirv.FMul %v, %scale : f32
    spirv.Store "StorageBuffer" %p, %w : f32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @h, @h_arg_0
  spirv.ExecutionMode @h "LocalSize", 1, 1, 1
}
