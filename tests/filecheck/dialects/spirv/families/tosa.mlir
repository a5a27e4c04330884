// RUN: XDSL_ROUNDTRIP

// EXTENSION: TOSA.001000.1, which mlir-opt-22 does not have. Every operator, with types of no meaning.
spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, TensorsARM, GraphARM, VulkanMemoryModel], [SPV_ARM_graph, SPV_ARM_tensors]> {
  spirv.GlobalVariable @v0 bind(0, 0) : !spirv.ptr<!spirv.arm.tensor<2x3xf32>, UniformConstant>
  spirv.GlobalVariable @v1 bind(0, 1) : !spirv.ptr<!spirv.arm.tensor<2x3xf32>, UniformConstant>
  spirv.GlobalVariable @v2 bind(0, 2) : !spirv.ptr<!spirv.arm.tensor<2x3xf32>, UniformConstant>
  spirv.GlobalVariable @v3 bind(0, 3) : !spirv.ptr<!spirv.arm.tensor<2x3xf32>, UniformConstant>
  spirv.GlobalVariable @v4 bind(0, 4) : !spirv.ptr<!spirv.arm.tensor<2x3xf32>, UniformConstant>
  spirv.GlobalVariable @v5 bind(0, 5) : !spirv.ptr<!spirv.arm.tensor<2x3xf32>, UniformConstant>
  spirv.ARM.GraphEntryPoint @g, @v0, @v1, @v2, @v3, @v4, @v5
  spirv.ARM.Graph @g(%0: !spirv.arm.tensor<2x3xf32>, %1: !spirv.arm.tensor<2x3xf32>, %2: !spirv.arm.tensor<2x3xf32>, %3: !spirv.arm.tensor<2x3xf32>, %4: !spirv.arm.tensor<2x3xf32>) -> !spirv.arm.tensor<2x3xf32> attributes {entry_point = true} {
    %5 = spirv.Tosa.ArgMax axis = 1, nan_mode = <Ignore>, %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %6 = spirv.Tosa.AvgPool2D kernel = [1, 0, 2], stride = [1, 0, 2], pad = [1, 0, 2], acc_type = <FP32>, %0, %1, %2 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    // CHECK: spirv.Tosa.Conv2D pad = [1, 0, 2], stride = [1, 0, 2], dilation = [1, 0, 2], acc_type = <FP32>, local_bound = true, %
    %7 = spirv.Tosa.Conv2D pad = [1, 0, 2], stride = [1, 0, 2], dilation = [1, 0, 2], acc_type = <FP32>, local_bound = true, %0, %1, %2, %3, %4 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %8 = spirv.Tosa.Conv3D pad = [1, 0, 2], stride = [1, 0, 2], dilation = [1, 0, 2], acc_type = <FP32>, local_bound = true, %0, %1, %2, %3, %4 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %9 = spirv.Tosa.DepthwiseConv2D pad = [1, 0, 2], stride = [1, 0, 2], dilation = [1, 0, 2], acc_type = <FP32>, local_bound = true, %0, %1, %2, %3, %4 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %10 = spirv.Tosa.FFT2D inverse = true, local_bound = true, %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %11 = spirv.Tosa.MatMul %0, %1, %2, %3 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %12 = spirv.Tosa.MaxPool2D kernel = [1, 0, 2], stride = [1, 0, 2], pad = [1, 0, 2], nan_mode = <Ignore>, %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %13 = spirv.Tosa.RFFT2D local_bound = true, %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %14 = spirv.Tosa.TransposeConv2D out_pad = [1, 0, 2], stride = [1, 0, 2], acc_type = <FP32>, local_bound = true, %0, %1, %2, %3, %4 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %15 = spirv.Tosa.Clamp min_val = -1.500000e+00 : f32, max_val = 0x7f800000 : f32, nan_mode = <Ignore>, %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %16 = spirv.Tosa.Erf %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %17 = spirv.Tosa.Sigmoid %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %18 = spirv.Tosa.Tanh %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %19 = spirv.Tosa.Add %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %20 = spirv.Tosa.ArithmeticRightShift round = true, %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %21 = spirv.Tosa.BitwiseAnd %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %22 = spirv.Tosa.BitwiseOr %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %23 = spirv.Tosa.BitwiseXor %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %24 = spirv.Tosa.IntDiv %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %25 = spirv.Tosa.LogicalAnd %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %26 = spirv.Tosa.LogicalLeftShift %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %27 = spirv.Tosa.LogicalRightShift %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %28 = spirv.Tosa.LogicalOr %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %29 = spirv.Tosa.LogicalXor %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %30 = spirv.Tosa.Maximum nan_mode = <Ignore>, %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %31 = spirv.Tosa.Minimum nan_mode = <Ignore>, %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %32 = spirv.Tosa.Mul %0, %1, %2 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %33 = spirv.Tosa.Pow %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %34 = spirv.Tosa.Sub %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %35 = spirv.Tosa.Table %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %36 = spirv.Tosa.Abs %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %37 = spirv.Tosa.BitwiseNot %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %38 = spirv.Tosa.Ceil %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %39 = spirv.Tosa.Clz %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %40 = spirv.Tosa.Cos %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %41 = spirv.Tosa.Exp %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %42 = spirv.Tosa.Floor %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %43 = spirv.Tosa.Log %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %44 = spirv.Tosa.LogicalNot %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %45 = spirv.Tosa.Negate %0, %1, %2 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %46 = spirv.Tosa.Reciprocal %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %47 = spirv.Tosa.Rsqrt %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %48 = spirv.Tosa.Sin %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %49 = spirv.Tosa.Select %0, %1, %2 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %50 = spirv.Tosa.Equal %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %51 = spirv.Tosa.Greater %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %52 = spirv.Tosa.GreaterEqual %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %53 = spirv.Tosa.ReduceAll axis = 1, %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %54 = spirv.Tosa.ReduceAny axis = 1, %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %55 = spirv.Tosa.ReduceMax axis = 1, nan_mode = <Ignore>, %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %56 = spirv.Tosa.ReduceMin axis = 1, nan_mode = <Ignore>, %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %57 = spirv.Tosa.ReduceProduct axis = 1, %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %58 = spirv.Tosa.ReduceSum axis = 1, %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %59 = spirv.Tosa.Concat axis = 1, %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %60 = spirv.Tosa.Pad %0, %1, %2 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %61 = spirv.Tosa.Reshape %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %62 = spirv.Tosa.Reverse axis = 1, %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %63 = spirv.Tosa.Slice %0, %1, %2 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %64 = spirv.Tosa.Tile %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %65 = spirv.Tosa.Transpose perms = [1, 0, 2], %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %66 = spirv.Tosa.Gather %0, %1 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %67 = spirv.Tosa.Scatter %0, %1, %2 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %68 = spirv.Tosa.Resize mode = <Bilinear>, %0, %1, %2, %3 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %69 = spirv.Tosa.Cast %0 : !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    %70 = spirv.Tosa.Rescale scale32 = true, rounding_mode = <DoubleRound>, per_channel = true, input_unsigned = true, output_unsigned = true, %0, %1, %2, %3, %4 : !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32>, !spirv.arm.tensor<2x3xf32> -> !spirv.arm.tensor<2x3xf32>
    spirv.ARM.GraphOutputs %70 : !spirv.arm.tensor<2x3xf32>
  }
}
