// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// An operation of another dialect in a module.
spirv.module Logical Vulkan {
  func.func @f() { func.return }
}
// CHECK: Operation does not verify: func.func cannot stand directly in a spirv.module: only constants, global variables, functions, entry points and execution modes can

// -----

// An instruction outside of a function.
spirv.module Logical Vulkan {
  %0 = spirv.Undef : f32
  %1 = spirv.FNegate %0 : f32
}
// CHECK: Operation does not verify: spirv.FNegate cannot stand directly in a spirv.module: only constants, global variables, functions, entry points and execution modes can

// -----

// A module in a module.
spirv.module Logical Vulkan {
  spirv.module Logical Vulkan {
  }
}
// CHECK: Operation does not verify: spirv.module cannot stand directly in a spirv.module: only constants, global variables, functions, entry points and execution modes can

// -----

// An operation of another dialect in a function.
spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    %0 = arith.constant 1 : i32
    spirv.Return
  }
}
// CHECK: Operation does not verify: arith.constant cannot be in a function of a spirv.module: lower it to spirv first

// -----

// An unknown memory model.
spirv.module Logical Volcano {
}
// CHECK: 'Volcano' is not a MemoryModel

// -----

// Another attribute in the position of the triple.
spirv.module Logical Vulkan requires 1 : i32 {
}
// CHECK: expected #spirv.vce<...>

// -----

// A symbol that is defined twice.
spirv.module Logical Vulkan {
  spirv.SpecConstant @a = 1 : i32
  spirv.SpecConstant @a = 2 : i32
}
// CHECK: Operation does not verify: Redefinition of symbol "a"

// -----

// A function with two results.
spirv.func @f() -> (f32, f32) "None" {
  spirv.Unreachable
}
// CHECK: Operation does not verify: a SPIR-V function can return at most one value: return several as a spirv.struct

// -----

// A declaration of a function without an import.
spirv.module Logical Vulkan {
  spirv.func @f(i32) "None"
}
// CHECK: Operation does not verify: a function without a body must be imported: add linkage_attributes, or a body

// -----

// An unknown function control.
spirv.func @f() "Quick" {
  spirv.Return
}
// CHECK: 'Quick' is not a FunctionControl

// -----

// Names for only some of the arguments.
spirv.func @f(%a: i32, f32) "None" {
  spirv.Return
}
// CHECK: either all arguments of a function must have names, or none

// -----

// An entry point without a function.
spirv.module Logical Vulkan {
  spirv.EntryPoint "GLCompute" @main
}
// CHECK: Operation does not verify: @main is not a spirv.func of this module

// -----

// An entry point's interface that is not a variable.
spirv.module Logical Vulkan {
  spirv.SpecConstant @c = 1 : i32
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @c
}
// CHECK: Operation does not verify: @c is not a spirv.GlobalVariable of this module

// -----

// An entry point with arguments.
spirv.module Logical Vulkan {
  spirv.func @main(%a: i32) "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
}
// CHECK: Operation does not verify: the entry point @main must have no arguments or results: use global variables

// -----

// An entry point that is declared twice.
spirv.module Logical Vulkan {
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.EntryPoint "GLCompute" @main
}
// CHECK: Operation does not verify: two entry points have the model GLCompute and the name main

// -----

// An execution mode of an undefined function.
spirv.module Logical Vulkan {
  spirv.ExecutionMode @main "LocalSize", 8, 1, 1
}
// CHECK: Operation does not verify: @main is not a spirv.func of this module

// -----

// A local size with only one number.
spirv.module Logical Vulkan {
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.ExecutionMode @main "LocalSize", 8
}
// CHECK: Operation does not verify: LocalSize needs 3 numbers (x, y, z), not 1: write 1 for an unused dimension

// -----

// A global variable whose type is not a pointer.
spirv.GlobalVariable @v : f32
// CHECK: expected a !spirv.ptr, got f32

// -----

// A global variable in Function storage.
spirv.GlobalVariable @v : !spirv.ptr<f32, Function>
// CHECK: Operation does not verify: a global variable cannot be in Function: use spirv.Variable in a function

// -----

// An unknown built-in.
spirv.GlobalVariable @v built_in("LocalWeather") : !spirv.ptr<f32, Input>
// CHECK: Operation does not verify: 'LocalWeather' is not a built-in variable of SPIR-V

// -----

// An initializer that does not exist.
spirv.module Logical Vulkan {
  spirv.GlobalVariable @v initializer(@c) : !spirv.ptr<f32, Private>
}
// CHECK: Operation does not verify: the initializer @c must be a specialization constant or global variable

// -----

// An initializer of another type.
spirv.module Logical Vulkan {
  spirv.SpecConstant @c = 1 : i32
  spirv.GlobalVariable @v initializer(@c) : !spirv.ptr<f32, Private>
}
// CHECK: Operation does not verify: the initializer @c has type i32, but the variable holds f32

// -----

// The address of an undefined variable.
spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    %0 = spirv.mlir.addressof @v : !spirv.ptr<f32, Private>
    spirv.Return
  }
}
// CHECK: Operation does not verify: @v is not a spirv.GlobalVariable of this module

// -----

// An address with another type.
spirv.module Logical Vulkan {
  spirv.GlobalVariable @v : !spirv.ptr<f32, Private>
  spirv.func @f() "None" {
    %0 = spirv.mlir.addressof @v : !spirv.ptr<i32, Private>
    spirv.Return
  }
}
// CHECK: Operation does not verify: @v has type !spirv.ptr<f32, Private>, but the result has type !spirv.ptr<i32, Private>
