// RUN: not xdsl-opt %s -p spirv-bfloat16-to-bits 2>&1 | filecheck %s
// RUN: not xdsl-opt %s -p 'spirv-bfloat16-to-bits{rounding=up}' 2>&1 | filecheck %s --check-prefix=OPTION

// CHECK: spirv-bfloat16-to-bits: 'spirv.Undef' (%n) in @f: the components of !spirv.coopmatrix<8x8xbf16, Subgroup, MatrixA> cannot be rewritten: run spirv-cooperative-matrix-to-invocations first
// OPTION: rounding must be nearest-even or toward-zero, not 'up'

spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    %m = spirv.ConstantNull : !spirv.coopmatrix<8x8xf32, Subgroup, MatrixA>
    %n = spirv.Undef : !spirv.array<2 x !spirv.coopmatrix<8x8xbf16, Subgroup, MatrixA>>
    spirv.Return
  }
}
