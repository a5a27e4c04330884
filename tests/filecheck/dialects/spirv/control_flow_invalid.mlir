// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s

// A branch with too few arguments.
spirv.func @f() "None" {
  spirv.Branch ^bb
^bb(%x: i32):
  spirv.Return
}
// CHECK: Operation does not verify: a branch passes () to a block that takes (i32)

// -----

// A branch with an argument of another type.
spirv.func @f(%c: i1) "None" {
  spirv.mlir.selection {
    spirv.BranchConditional %c, ^then, ^merge(%c : i1)
  ^then:
    spirv.Unreachable
  ^merge(%x: i32):
    spirv.mlir.merge
  }
  spirv.Return
}
// CHECK: Operation does not verify: a branch passes (i1) to a block that takes (i32)

// -----

// A branch with more types than values.
spirv.func @f(%x: i32) "None" {
  spirv.Branch ^bb(%x : i32, i32)
^bb(%y: i32):
  spirv.Return
}
// CHECK: expected 2 operand types but had 1

// -----

// A condition that is not a boolean.
spirv.func @f(%c: i32) "None" {
  spirv.BranchConditional %c, ^bb, ^bb
^bb:
  spirv.Return
}
// CHECK: operand is used with type i1, but has been previously used or defined with type i32

// -----

// Branch weights that are all zero.
spirv.func @f(%c: i1) "None" {
  spirv.BranchConditional %c [0, 0], ^bb, ^bb
^bb:
  spirv.Return
}
// CHECK: Operation does not verify: branch weights must be two numbers that are not both 0, not [0, 0]

// -----

// A switch with a repeated literal.
spirv.func @f(%n: i32) "None" {
  spirv.Switch %n : i32, [default: ^bb, 1: ^bb, 1: ^bb]
^bb:
  spirv.Return
}
// CHECK: Operation does not verify: two cases of a switch have the same literal

// -----

// A switch with a literal beyond the selector's type.
spirv.func @f(%n: i8) "None" {
  spirv.Switch %n : i8, [default: ^bb, 1000: ^bb]
^bb:
  spirv.Return
}
// CHECK: Integer value 1000 is out of range for type i8 which supports values in the range [-128, 256)

// -----

// A selector that is not an integer.
spirv.func @f(%n: f32) "None" {
  spirv.Switch %n : f32, [default: ^bb]
^bb:
  spirv.Return
}
// CHECK: a selector must be an integer, not f32

// -----

// A selection without a merge block.
spirv.func @f(%c: i1) "None" {
  spirv.mlir.selection {
  }
  spirv.Return
}
// CHECK: Operation does not verify: the last block of a spirv.mlir.selection must end in spirv.mlir.merge

// -----

// A selection without a header.
spirv.func @f(%c: i1) "None" {
  spirv.mlir.selection {
    spirv.mlir.merge
  }
  spirv.Return
}
// CHECK: Operation does not verify: a selection needs a header block before its merge block

// -----

// A selection's header that does not branch conditionally.
spirv.func @f(%c: i1) "None" {
  spirv.mlir.selection {
    spirv.Branch ^merge
  ^merge:
    spirv.mlir.merge
  }
  spirv.Return
}
// CHECK: Operation does not verify: a selection's header must end in spirv.BranchConditional or spirv.Switch

// -----

// A merge block with other operations.
spirv.func @f(%c: i1) "None" {
  spirv.mlir.selection {
    spirv.BranchConditional %c, ^merge, ^merge
  ^merge:
    %0 = spirv.Undef : f32
    spirv.mlir.merge
  }
  spirv.Return
}
// CHECK: Operation does not verify: the merge block of a spirv.mlir.selection must only contain spirv.mlir.merge: move other operations after the construct

// -----

// A selection with two merges.
spirv.func @f(%c: i1) "None" {
  spirv.mlir.selection {
    spirv.BranchConditional %c, ^then, ^merge
  ^then:
    spirv.mlir.merge
  ^merge:
    spirv.mlir.merge
  }
  spirv.Return
}
// CHECK: Operation does not verify: only the last block of a spirv.mlir.selection may end in spirv.mlir.merge: branch to that block instead

// -----

// A merge that gives another type.
spirv.func @f(%c: i1) "None" {
  %0 = spirv.mlir.selection -> i32 {
    spirv.BranchConditional %c, ^merge, ^merge
  ^merge:
    spirv.mlir.merge %c : i1
  }
  spirv.Return
}
// CHECK: Operation does not verify: spirv.mlir.selection has results (i32), but its spirv.mlir.merge has operands (i1)

// -----

// A merge outside of a construct.
spirv.func @f() "None" {
  spirv.mlir.merge
}
// CHECK: Operation does not verify: 'spirv.mlir.merge' expects parent op to be one of 'spirv.mlir.selection', 'spirv.mlir.loop'

// -----

// A loop of too few blocks.
spirv.func @f(%c: i1) "None" {
  spirv.mlir.loop {
    spirv.Branch ^header
  ^header:
    spirv.BranchConditional %c, ^header, ^merge
  ^merge:
    spirv.mlir.merge
  }
  spirv.Return
}
// CHECK: Operation does not verify: a loop needs an entry, a header, a continue and a merge block: this one has 3 blocks

// -----

// A loop whose entry block has other operations.
spirv.func @f(%c: i1) "None" {
  spirv.mlir.loop {
    %0 = spirv.Undef : f32
    spirv.Branch ^header
  ^header:
    spirv.BranchConditional %c, ^continue, ^merge
  ^continue:
    spirv.Branch ^header
  ^merge:
    spirv.mlir.merge
  }
  spirv.Return
}
// CHECK: Operation does not verify: a loop's entry block must hold only a spirv.Branch to the second block, the header

// -----

// A loop whose header ends with a switch.
spirv.func @f(%n: i32) "None" {
  spirv.mlir.loop {
    spirv.Branch ^header
  ^header:
    spirv.Switch %n : i32, [default: ^continue, 0: ^merge]
  ^continue:
    spirv.Branch ^header
  ^merge:
    spirv.mlir.merge
  }
  spirv.Return
}
// CHECK: Operation does not verify: a loop's header must end in spirv.Branch or spirv.BranchConditional

// -----

// A loop without a back edge.
spirv.func @f(%c: i1) "None" {
  spirv.mlir.loop {
    spirv.Branch ^header
  ^header:
    spirv.BranchConditional %c, ^continue, ^merge
  ^continue:
    spirv.Branch ^merge
  ^merge:
    spirv.mlir.merge
  }
  spirv.Return
}
// CHECK: Operation does not verify: the next to last block is the continue target and must branch to the header

// -----

// A loop with a back edge from its body.
spirv.func @f(%c: i1) "None" {
  spirv.mlir.loop {
    spirv.Branch ^header
  ^header:
    spirv.BranchConditional %c, ^body, ^merge
  ^body:
    spirv.BranchConditional %c, ^continue, ^header
  ^continue:
    spirv.Branch ^header
  ^merge:
    spirv.mlir.merge
  }
  spirv.Return
}
// CHECK: Operation does not verify: only the entry and the continue target may branch to a loop's header: branch to the continue target instead

// -----

// An unknown loop control.
spirv.func @f(%c: i1) "None" {
  spirv.mlir.loop control(Faster) {
  }
  spirv.Return
}
// CHECK: 'Faster' is not a LoopControl

// -----

// A return without the value.
spirv.func @f() -> i32 "None" {
  spirv.Return
}
// CHECK: Operation does not verify: the function returns i32: use spirv.ReturnValue

// -----

// A return of another value.
spirv.func @f(%x: f32) -> i32 "None" {
  spirv.ReturnValue %x : f32
}
// CHECK: Operation does not verify: the function returns i32, not f32

// -----

// A function whose value is never returned.
spirv.func @f(%x: f32) "None" {
  spirv.ReturnValue %x : f32
}
// CHECK: Operation does not verify: the function returns no value, not f32

// -----

// A call of an undefined function.
spirv.module Logical Vulkan {
  spirv.func @f() "None" {
    spirv.FunctionCall @g() : () -> ()
    spirv.Return
  }
}
// CHECK: Operation does not verify: @g is not a spirv.func of this module

// -----

// A call with arguments of other types.
spirv.module Logical Vulkan {
  spirv.func @f(%x: i32) "None" {
    spirv.FunctionCall @f() : () -> ()
    spirv.Return
  }
}
// CHECK: Operation does not verify: @f takes (i32), not ()

// -----

// A call with a result of another type.
spirv.module Logical Vulkan {
  spirv.func @f(%x: i32) "None" {
    %0 = spirv.FunctionCall @f(%x) : (i32) -> i32
    spirv.Return
  }
}
// CHECK: Operation does not verify: @f returns nothing, not i32

// -----

// A merged value that is not defined on every path.
spirv.func @f(%c: i1, %x: f32) -> f32 "None" {
  %0 = spirv.mlir.selection -> f32 {
    spirv.BranchConditional %c, ^then, ^merge
  ^then:
    %y = spirv.FAdd %x, %x : f32
    spirv.Branch ^merge
  ^merge:
    spirv.mlir.merge %y : f32
  }
  spirv.ReturnValue %0 : f32
}
// CHECK: Operation does not verify: spirv.mlir.merge uses %y, but the definition does not come before the use on every path: pass the value to the block as an argument

// -----

// A merged value from a path that a break does not take.
spirv.func @f(%c: i1, %x: f32) -> f32 "None" {
  %0 = spirv.mlir.loop -> f32 {
    spirv.Branch ^header
  ^header:
    spirv.BranchConditional %c, ^body, ^merge
  ^body:
    %y = spirv.FAdd %x, %x : f32
    spirv.mlir.selection {
      spirv.BranchConditional %c, ^exit, ^inner
    ^exit:
      spirv.mlir.break 1
    ^inner:
      spirv.mlir.merge
    }
    spirv.Branch ^continue
  ^continue:
    spirv.Branch ^header
  ^merge:
    spirv.mlir.merge %y : f32
  }
  spirv.ReturnValue %0 : f32
}
// CHECK: Operation does not verify: spirv.mlir.merge uses %y, but the definition does not come before

// -----

// A use before the definition.
spirv.func @f(%x: f32) -> f32 "None" {
  %0 = spirv.FAdd %y, %x : f32
  %y = spirv.FAdd %x, %x : f32
  spirv.ReturnValue %0 : f32
}
// CHECK: Operation does not verify: spirv.FAdd uses %y, but the definition does not come before
