// RUN: xdsl-opt %s --verify-diagnostics --split-input-file | filecheck %s

spirv.func @f() "None" {
  // CHECK: must leave a construct: use spirv.Branch instead
  spirv.mlir.break 0
}

// -----

spirv.func @f() "None" {
  // CHECK: spirv.mlir.break leaves more constructs than surround it
  spirv.mlir.break 1
}

// -----

spirv.func @f(%c : i1) "None" {
  spirv.mlir.selection {
    spirv.BranchConditional %c, ^then, ^merge
  ^then:
    spirv.mlir.selection {
      spirv.BranchConditional %c, ^inner, ^out
    ^inner:
      // CHECK: (i1) is passed to a block that takes ()
      spirv.mlir.break 1 (%c : i1)
    ^out:
      spirv.mlir.merge
    }
    spirv.Branch ^merge
  ^merge:
    spirv.mlir.merge
  }
  spirv.Return
}

// -----

// CHECK: the instruction marks 0 operands as values, but 1 values are given
spirv.func @f(%c : i1) "None" {
  "spirv.Raw"(%c) <{instruction = "OpNop", layout = []}> : (i1) -> ()
  spirv.Return
}
