// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// Offsets of only some members.
func.func private @f(!spirv.struct<(f32 [0], i32 [NonWritable])>)
// CHECK: either all members of a struct must have an offset, or none

// -----

// A runtime array that is not the last member.
func.func private @f(!spirv.struct<(!spirv.rtarray<f32>, i32)>)
// CHECK: a runtime array must be the last member of a struct, not member 0

// -----

// An unknown decoration.
func.func private @f(!spirv.struct<(f32 [0, Shiny])>)
// CHECK: 'Shiny' is not a Decoration

// -----

// An unknown storage class.
func.func private @f(!spirv.ptr<f32, Attic>)
// CHECK: 'Attic' is not a StorageClass

// -----

// An array without elements.
func.func private @f(!spirv.array<0 x f32>)
// CHECK: an array's length must be from 1 to 4294967295, not 0

// -----

// A matrix with one column.
func.func private @f(!spirv.matrix<1 x vector<4xf32>>)
// CHECK: a matrix must have 2 to 4 columns, not 1

// -----

// An array of a size that is not declared.
spirv.module Logical Vulkan {
  spirv.GlobalVariable @v : !spirv.ptr<!spirv.array<@n x f32>, Workgroup>
}
@n is not a specialization constant of the module: declare spirv.SpecConstant @n

// -----

// An array of a size that is not an integer.
spirv.module Logical Vulkan {
  spirv.SpecConstant @n = 1.0 : f32
  spirv.GlobalVariable @v : !spirv.ptr<!spirv.array<@n x f32>, Workgroup>
}
// CHECK: Operation does not verify: @n is an array's length and must be an integer, not f32

// -----

// An invalid version.
"test.op"() {a = #spirv.version<x1>} : () -> ()
// CHECK: 'x1' is not a version such as v1.6

// -----

// An unknown extension.
"test.op"() {a = #spirv.ext<GL_EXT_bfloat16>} : () -> ()
// CHECK: 'GL_EXT_bfloat16' is not an extension's name, which must begin with SPV_

// -----

// An unknown capability.
"test.op"() {a = #spirv.vce<v1.6, [Shading], []>} : () -> ()
// CHECK: 'Shading' is not a Capability

// -----

// A workgroup with one dimension.
"test.op"() {a = #spirv.entry_point_abi<workgroup_size = [32]>} : () -> ()
// CHECK: a workgroup size has 3 numbers (x, y, z), not 1: write 1 for an unused dimension

// -----

// An unknown parameter.
"test.op"() {a = #spirv.entry_point_abi<workgroup = [32, 1, 1]>} : () -> ()
// CHECK: spirv.entry_point_abi: 'workgroup' is not one of workgroup_size, subgroup_size, target_width

// -----

// A repeated parameter.
"test.op"() {a = #spirv.entry_point_abi<subgroup_size = 8, subgroup_size = 8>} : () -> ()
// CHECK: spirv.entry_point_abi: 'subgroup_size' is given twice

// -----

// A missing parameter.
"test.op"() {a = #spirv.coop_matrix_props_khr<m_size = 16, n_size = 16>} : () -> ()
// CHECK: spirv.coop_matrix_props_khr needs k_size, a_type, b_type, c_type, result_type, acc_sat, scope
