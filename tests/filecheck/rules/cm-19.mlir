// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// CM-19: conversions of cooperative matrices keep scope, rows, columns and use; a bitcast is between
// integers of one width.

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>)
%0 = spirv.FConvert %x : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xf32, Subgroup, MatrixA>
// CHECK: spirv.FConvert %x : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xf32, Subgroup, MatrixA>
// CHECK-NOT: CM-19:
// CHECK: {{^//}} -----

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA>)
%0 = spirv.FConvert %x : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xf32, Subgroup, MatrixA>
// CHECK: spirv.FConvert %x : !spirv.coopmatrix<16x16xbf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xf32, Subgroup, MatrixA>
// CHECK-NOT: CM-19:
// CHECK: {{^//}} -----

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>)
%0 = spirv.ConvertFToS %x : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xsi8, Subgroup, MatrixA>
// CHECK: spirv.ConvertFToS %x : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xsi8, Subgroup, MatrixA>
// CHECK-NOT: CM-19:
// CHECK: {{^//}} -----

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>)
%0 = spirv.ConvertFToU %x : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK: spirv.ConvertFToU %x : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>
// CHECK-NOT: CM-19:
// CHECK: {{^//}} -----

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xi32, Subgroup, MatrixA>)
%0 = spirv.ConvertSToF %x : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.ConvertSToF %x : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-19:
// CHECK: {{^//}} -----

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xi32, Subgroup, MatrixA>)
%0 = spirv.ConvertUToF %x : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: spirv.ConvertUToF %x : !spirv.coopmatrix<16x16xi32, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK-NOT: CM-19:
// CHECK: {{^//}} -----

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.UConvert %x : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xi32, Subgroup, MatrixA>
// CHECK: spirv.UConvert %x : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xi32, Subgroup, MatrixA>
// CHECK-NOT: CM-19:
// CHECK: {{^//}} -----

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.SConvert %x : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xi32, Subgroup, MatrixA>
// CHECK: spirv.SConvert %x : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xi32, Subgroup, MatrixA>
// CHECK-NOT: CM-19:
// CHECK: {{^//}} -----

// -----

// Not in MLIR.
%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xsi8, Subgroup, MatrixA>)
%0 = spirv.Bitcast %x : !spirv.coopmatrix<16x16xsi8, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xui8, Subgroup, MatrixA>
// CHECK: spirv.Bitcast %x : !spirv.coopmatrix<16x16xsi8, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xui8, Subgroup, MatrixA>
// CHECK-NOT: CM-19:
// CHECK: {{^//}} -----

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>)
%0 = spirv.FConvert %x : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: CM-19: a conversion cannot change the use: !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>; convert the components only; store and load to change the rest

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>)
%0 = spirv.FConvert %x : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xf32, Workgroup, MatrixA>
// CHECK: CM-19: a conversion cannot change the scope

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.SConvert %x : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA> to !spirv.coopmatrix<8x16xi32, Subgroup, MatrixA>
// CHECK: CM-19: a conversion cannot change the rows

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.UConvert %x : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA> to !spirv.coopmatrix<16x8xi32, Subgroup, MatrixA>
// CHECK: CM-19: a conversion cannot change the columns

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>)
%0 = spirv.ConvertFToS %x : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to i32
// CHECK: CM-19: a cooperative matrix converts to a cooperative matrix, not !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to i32

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>)
%0 = spirv.Bitcast %x : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xi16, Subgroup, MatrixA>
// CHECK: CM-19: a bitcast of a cooperative matrix needs integers of equal width, not !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xi16, Subgroup, MatrixA>

// -----

%x = "test.op"() : () -> (!spirv.coopmatrix<16x16xi8, Subgroup, MatrixA>)
%0 = spirv.Bitcast %x : !spirv.coopmatrix<16x16xi8, Subgroup, MatrixA> to !spirv.coopmatrix<16x16xi16, Subgroup, MatrixA>
// CHECK: CM-19: a bitcast of a cooperative matrix needs integers of equal width

// -----

// An accumulator may become an A with a capability for this.
spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, Float16, VulkanMemoryModel, CooperativeMatrixKHR, Linkage, CooperativeMatrixConversionsNV], [SPV_KHR_cooperative_matrix, SPV_NV_cooperative_matrix2]> {
  spirv.func @f(%x: !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>) "None" {
    %0 = spirv.FConvert %x : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: spirv.FConvert %x : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>

// -----

spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, Float16, VulkanMemoryModel, CooperativeMatrixKHR, Linkage], [SPV_KHR_cooperative_matrix]> {
  spirv.func @f(%x: !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>) "None" {
    %0 = spirv.FConvert %x : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc> to !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
    spirv.Return
  }
}
// CHECK: CM-19: a conversion cannot change the use
