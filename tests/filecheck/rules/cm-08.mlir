// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-08: a composite constant or construct of a cooperative matrix has exactly one constituent.

%0 = spirv.Constant dense<1.000000e+00> : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.Constant dense<1.000000e+00> : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-08:
// CHECK: {{^//}} -----

// -----

%x = "test.op"() : () -> (f16)
%0 = spirv.CompositeConstruct %x : (f16) -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.CompositeConstruct %x : (f16) -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-08:
// CHECK: {{^//}} -----

// -----

spirv.SpecConstant @x spec_id(0) = 1.0 : f16
spirv.SpecConstantComposite @m (@x) : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.SpecConstantComposite @m (@x) : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-08:
// CHECK: {{^//}} -----

// -----

%0 = spirv.Constant [1.0 : f16, 2.0 : f16] : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-08: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> must have exactly one constituent, not 2; give one value, which all components get

// -----

%x = "test.op"() : () -> (f16)
%0 = spirv.CompositeConstruct %x, %x : (f16, f16) -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-08: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> must have exactly one constituent, not 2

// -----

%0 = spirv.CompositeConstruct : () -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-08: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> must have exactly one constituent, not 0

// -----

spirv.SpecConstant @x spec_id(0) = 1.0 : f16
spirv.SpecConstantComposite @m (@x, @x) : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: CM-08: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> must have exactly one constituent, not 2
