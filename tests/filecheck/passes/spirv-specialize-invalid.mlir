// RUN: not xdsl-opt %s -p 'spirv-specialize{values="9=1"}' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not xdsl-opt %s -p 'spirv-specialize{values="0=1.5"}' 2>&1 | filecheck %s --check-prefix=KIND
// RUN: not xdsl-opt %s -p 'spirv-specialize{values="0=4294967296"}' 2>&1 | filecheck %s --check-prefix=RANGE
// RUN: not xdsl-opt %s -p 'spirv-specialize{values="0=0"}' 2>&1 | filecheck %s --check-prefix=TYPE
// RUN: not xdsl-opt %s -p 'spirv-specialize{values="0=1","length=2"}' 2>&1 | filecheck %s --check-prefix=TWICE
// RUN: not xdsl-opt %s -p 'spirv-specialize{values="length"}' 2>&1 | filecheck %s --check-prefix=FORM

// UNKNOWN: the module has no specialization constant 9; it has: @length (SpecId 0): i32
// KIND: the value of 0 must have type i32, but is 1.5
// RANGE: the value of 0 must have type i32, but is 4294967296
// TYPE: a type becomes invalid: an array's length must be from 1 to
// TWICE: @length is given twice
// FORM: 'length' assigns no value: write ID=VALUE

spirv.module Logical Vulkan {
  spirv.SpecConstant @length spec_id(0) = 16 : i32
  spirv.GlobalVariable @a : !spirv.ptr<!spirv.array<@length x f32>, Workgroup>
}
