// RUN: xdsl-opt %s --split-input-file | xdsl-opt --split-input-file | filecheck %s
// RUN: mlir-opt %s --split-input-file | filecheck %s
// RUN: xdsl-opt %s --split-input-file | mlir-opt --split-input-file | filecheck %s
// REQUIRES: mlir-opt

// MLIR-CUSTOM-ONLY: MLIR prints a graph's type as a function's, which its parser refuses.
spirv.module Logical Vulkan requires #spirv.vce<v1.5, [VulkanMemoryModel, Shader, Int8, TensorsARM, GraphARM], [SPV_ARM_tensors, SPV_ARM_graph]> {
  spirv.GlobalVariable @in bind(0, 0) : !spirv.ptr<!spirv.arm.tensor<1x4xf32>, UniformConstant>
  spirv.GlobalVariable @out bind(0, 1) : !spirv.ptr<!spirv.arm.tensor<1x4xf32>, UniformConstant>
  // CHECK: spirv.ARM.GraphEntryPoint @main, @in, @out
  spirv.ARM.GraphEntryPoint @main, @in, @out
  // CHECK: spirv.ARM.Graph @main(%{{.*}}: !spirv.arm.tensor<1x4xf32>) -> !spirv.arm.tensor<1x4xf32> attributes {entry_point = true} {
  spirv.ARM.Graph @main(%x: !spirv.arm.tensor<1x4xf32>) -> !spirv.arm.tensor<1x4xf32> attributes {entry_point = true} {
    // CHECK: spirv.ARM.GraphConstant {graph_constant_id = 3 : i32} : !spirv.arm.tensor<1x4xf32>
    %w = spirv.ARM.GraphConstant {graph_constant_id = 3 : i32} : !spirv.arm.tensor<1x4xf32>
    // CHECK: spirv.ARM.GraphOutputs %{{.*}} : !spirv.arm.tensor<1x4xf32>
    spirv.ARM.GraphOutputs %w : !spirv.arm.tensor<1x4xf32>
  }
  // CHECK: spirv.ARM.Graph @two({{.*}}) -> (!spirv.arm.tensor<2xi8>, !spirv.arm.tensor<2xi8>) {
  spirv.ARM.Graph @two(%x: !spirv.arm.tensor<2xi8>, %y: !spirv.arm.tensor<2xi8>) -> (!spirv.arm.tensor<2xi8>, !spirv.arm.tensor<2xi8>) {
    spirv.ARM.GraphOutputs %y, %x : !spirv.arm.tensor<2xi8>, !spirv.arm.tensor<2xi8>
  }
}

// -----

// MLIR-CUSTOM-ONLY: MLIR prints a graph's type as a function's, which its parser refuses.
// CHECK: spirv.ARM.Graph @bound(%{{.*}}: !spirv.arm.tensor<2xi8> {spirv.interface_var_abi = #spirv.interface_var_abi<(0, 0)>}) -> (!spirv.arm.tensor<2xi8> {spirv.interface_var_abi = #spirv.interface_var_abi<(0, 1)>}) {
spirv.ARM.Graph @bound(%x: !spirv.arm.tensor<2xi8> {spirv.interface_var_abi = #spirv.interface_var_abi<(0, 0)>}) -> (!spirv.arm.tensor<2xi8> {spirv.interface_var_abi = #spirv.interface_var_abi<(0, 1)>}) {
  spirv.ARM.GraphOutputs %x : !spirv.arm.tensor<2xi8>
}

// -----

// MLIR-CUSTOM-ONLY: the generic syntax of MLIR has a dense attribute of an ARM tensor here, xDSL takes none.
spirv.module Logical Vulkan {
  spirv.GlobalVariable @in bind(0, 0) : !spirv.ptr<!spirv.arm.tensor<1x4xf32>, UniformConstant>
  spirv.GlobalVariable @out bind(0, 1) : !spirv.ptr<!spirv.arm.tensor<1x4xf32>, UniformConstant>
  spirv.ARM.GraphEntryPoint @constants, @in, @out
  spirv.ARM.Graph @constants(%x: !spirv.arm.tensor<1x4xf32>) -> !spirv.arm.tensor<1x4xf32> attributes {entry_point = true} {
    // CHECK: spirv.Constant dense<{{.*}}1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00{{.*}}> : !spirv.arm.tensor<1x4xf32>
    %c = spirv.Constant dense<[[1.0, 2.0, 3.0, 4.0]]> : !spirv.arm.tensor<1x4xf32>
    // CHECK: spirv.Constant dense<3> : !spirv.arm.tensor<1xi8>
    %z = spirv.Constant dense<3> : !spirv.arm.tensor<1xi8>
    spirv.ARM.GraphOutputs %c : !spirv.arm.tensor<1x4xf32>
  }
}
