// RUN: not xdsl-opt %s -p spirv-to-glsl450-memory-model 2>&1 | filecheck %s

// CHECK: spirv-to-glsl450-memory-model: 'spirv.ConstantNull' (%m) in @f: CM-02: cooperative matrices need the Vulkan memory model: run spirv-cooperative-matrix-to-invocations first

spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    %m = spirv.ConstantNull : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixA>
    spirv.Return
  }
}
