// RUN: XDSL_ROUNDTRIP

spirv.module Logical Vulkan {
  spirv.func @selections(%c: i1, %n: i32) -> i32 "None" {
    %one = spirv.Constant 1 : i32
    %x = spirv.mlir.selection -> i32 {
      spirv.BranchConditional %c [5, 10], ^then(%n : i32), ^else
    ^then(%k: i32):
      spirv.Branch ^merge(%k : i32)
    ^else:
      spirv.Branch ^merge(%one : i32)
    ^merge(%v: i32):
      spirv.mlir.merge %v : i32
    }
    spirv.mlir.selection control(Flatten) {
      spirv.Switch %n : i32, [
        default: ^default,
        0: ^merge,
        -1: ^merge
      ]
    ^default:
      spirv.Branch ^merge
    ^merge:
      spirv.mlir.merge
    }
    spirv.mlir.selection control(DontFlatten) {
      spirv.Switch %n : i32, [
        default: ^merge(%n, %c : i32, i1),
        7: ^merge(%one, %c : i32, i1)
      ]
    ^merge(%g: i32, %h: i1):
      spirv.mlir.merge
    }
    spirv.ReturnValue %x : i32
  }
  spirv.func @loops(%n: i32) "None" {
    %zero = spirv.Constant 0 : i32
    %one = spirv.Constant 1 : i32
    %sum:2 = spirv.mlir.loop control(Unroll) -> i32, i32 {
      spirv.Branch ^header(%zero, %zero : i32, i32)
    ^header(%i: i32, %s: i32):
      %more = spirv.SLessThan %i, %n : i32
      spirv.BranchConditional %more, ^body, ^merge
    ^body:
      %next = spirv.IAdd %s, %i : i32
      spirv.Branch ^continue
    ^continue:
      %j = spirv.IAdd %i, %one : i32
      spirv.Branch ^header(%j, %next : i32, i32)
    ^merge:
      spirv.mlir.merge %i, %s : i32, i32
    }
    spirv.mlir.loop {
      spirv.Branch ^header
    ^header:
      spirv.Branch ^body
    ^body:
      %c = spirv.IEqual %n, %zero : i32
      spirv.mlir.selection {
        spirv.BranchConditional %c, ^then, ^merge
      ^then:
        spirv.Return
      ^merge:
        spirv.mlir.merge
      }
      spirv.Branch ^continue
    ^continue:
      spirv.Branch ^header
    ^merge:
      spirv.mlir.merge
    }
    spirv.Return
  }
  spirv.func @calls(%c: i1, %n: i32) -> i32 "None" {
    spirv.FunctionCall @loops(%n) : (i32) -> ()
    %r = spirv.FunctionCall @selections(%c, %n) : (i1, i32) -> i32
    spirv.mlir.selection {
      spirv.BranchConditional %c, ^kill, ^merge
    ^kill:
      spirv.Unreachable
    ^merge:
      spirv.mlir.merge
    }
    spirv.ReturnValue %r : i32
  }
  spirv.func @discard() "None" {
    spirv.Kill
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @selections(%c: i1, %n: i32) -> i32 "None" {
// CHECK-NEXT:       %one = spirv.Constant 1 : i32
// CHECK-NEXT:       %x = spirv.mlir.selection -> i32 {
// CHECK-NEXT:         spirv.BranchConditional %c [5, 10], ^then(%n : i32), ^else
// CHECK-NEXT:       ^then(%k: i32):
// CHECK-NEXT:         spirv.Branch ^merge(%k : i32)
// CHECK-NEXT:       ^else:
// CHECK-NEXT:         spirv.Branch ^merge(%one : i32)
// CHECK-NEXT:       ^merge(%v: i32):
// CHECK-NEXT:         spirv.mlir.merge %v : i32
// CHECK-NEXT:       }
// CHECK-NEXT:       spirv.mlir.selection control(Flatten) {
// CHECK-NEXT:         spirv.Switch %n : i32, [
// CHECK-NEXT:           default: ^default,
// CHECK-NEXT:           0: ^merge_1,
// CHECK-NEXT:           -1: ^merge_1
// CHECK-NEXT:         ]
// CHECK-NEXT:       ^default:
// CHECK-NEXT:         spirv.Branch ^merge_1
// CHECK-NEXT:       ^merge_1:
// CHECK-NEXT:         spirv.mlir.merge
// CHECK-NEXT:       }
// CHECK-NEXT:       spirv.mlir.selection control(DontFlatten) {
// CHECK-NEXT:         spirv.Switch %n : i32, [
// CHECK-NEXT:           default: ^merge_2(%n, %c : i32, i1),
// CHECK-NEXT:           7: ^merge_2(%one, %c : i32, i1)
// CHECK-NEXT:         ]
// CHECK-NEXT:       ^merge_2(%g: i32, %h: i1):
// CHECK-NEXT:         spirv.mlir.merge
// CHECK-NEXT:       }
// CHECK-NEXT:       spirv.ReturnValue %x : i32
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.func @loops(%n: i32) "None" {
// CHECK-NEXT:       %zero = spirv.Constant 0 : i32
// CHECK-NEXT:       %one = spirv.Constant 1 : i32
// CHECK-NEXT:       %sum, %sum_1 = spirv.mlir.loop control(Unroll) -> i32, i32 {
// CHECK-NEXT:         spirv.Branch ^header(%zero, %zero : i32, i32)
// CHECK-NEXT:       ^header(%i: i32, %s: i32):
// CHECK-NEXT:         %more = spirv.SLessThan %i, %n : i32
// CHECK-NEXT:         spirv.BranchConditional %more, ^body, ^merge
// CHECK-NEXT:       ^body:
// CHECK-NEXT:         %next = spirv.IAdd %s, %i : i32
// CHECK-NEXT:         spirv.Branch ^continue
// CHECK-NEXT:       ^continue:
// CHECK-NEXT:         %j = spirv.IAdd %i, %one : i32
// CHECK-NEXT:         spirv.Branch ^header(%j, %next : i32, i32)
// CHECK-NEXT:       ^merge:
// CHECK-NEXT:         spirv.mlir.merge %i, %s : i32, i32
// CHECK-NEXT:       }
// CHECK-NEXT:       spirv.mlir.loop {
// CHECK-NEXT:         spirv.Branch ^header_1
// CHECK-NEXT:       ^header_1:
// CHECK-NEXT:         spirv.Branch ^body_1
// CHECK-NEXT:       ^body_1:
// CHECK-NEXT:         %c = spirv.IEqual %n, %zero : i32
// CHECK-NEXT:         spirv.mlir.selection {
// CHECK-NEXT:           spirv.BranchConditional %c, ^then, ^merge_2
// CHECK-NEXT:         ^then:
// CHECK-NEXT:           spirv.Return
// CHECK-NEXT:         ^merge_2:
// CHECK-NEXT:           spirv.mlir.merge
// CHECK-NEXT:         }
// CHECK-NEXT:         spirv.Branch ^continue_1
// CHECK-NEXT:       ^continue_1:
// CHECK-NEXT:         spirv.Branch ^header_1
// CHECK-NEXT:       ^merge_1:
// CHECK-NEXT:         spirv.mlir.merge
// CHECK-NEXT:       }
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.func @calls(%c: i1, %n: i32) -> i32 "None" {
// CHECK-NEXT:       spirv.FunctionCall @loops(%n) : (i32) -> ()
// CHECK-NEXT:       %r = spirv.FunctionCall @selections(%c, %n) : (i1, i32) -> i32
// CHECK-NEXT:       spirv.mlir.selection {
// CHECK-NEXT:         spirv.BranchConditional %c, ^kill, ^merge
// CHECK-NEXT:       ^kill:
// CHECK-NEXT:         spirv.Unreachable
// CHECK-NEXT:       ^merge:
// CHECK-NEXT:         spirv.mlir.merge
// CHECK-NEXT:       }
// CHECK-NEXT:       spirv.ReturnValue %r : i32
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.func @discard() "None" {
// CHECK-NEXT:       spirv.Kill
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
