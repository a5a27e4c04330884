// RUN: xdsl-opt %s -p cse,dce | filecheck %s

spirv.module Logical Vulkan {
  spirv.GlobalVariable @shared : !spirv.ptr<i32, Workgroup>
  spirv.GlobalVariable @flag {volatile} : !spirv.ptr<i32, Workgroup>

  // Instructions that only return a value are removed if it is not used, and so is an unused variable.
  // CHECK:      spirv.func @unused
  // CHECK-NEXT:   spirv.Return
  spirv.func @unused(%x: i32) "None" {
    %c = spirv.Constant 1 : i32
    %sum = spirv.IAdd %x, %c : i32
    %v = spirv.Variable : !spirv.ptr<i32, Function>
    %p = spirv.mlir.addressof @shared : !spirv.ptr<i32, Workgroup>
    %value = spirv.Load "Workgroup" %p : i32
    %total = spirv.GroupNonUniformIAdd <Subgroup> <Reduce> %x : i32 -> i32
    spirv.Return
  }

  // A volatile load stays, if either the access or the variable is volatile. A write stays, too.
  // CHECK:      spirv.func @writes
  spirv.func @writes(%x: f32, %out: !spirv.ptr<f32, Function>) "None" {
    // CHECK:      spirv.Load "Workgroup" %{{.*}} : i32
    // CHECK-NEXT: spirv.Load "Workgroup" %{{.*}} : i32
    // CHECK-NEXT: spirv.Load "Workgroup" %{{.*}} ["Volatile"] : i32
    // CHECK-NEXT: spirv.GL.Modf
    // CHECK-NEXT: spirv.AtomicIAdd
    %p = spirv.mlir.addressof @shared : !spirv.ptr<i32, Workgroup>
    %f = spirv.mlir.addressof @flag : !spirv.ptr<i32, Workgroup>
    %a = spirv.Load "Workgroup" %f : i32
    %b = spirv.Load "Workgroup" %f : i32
    %c = spirv.Load "Workgroup" %p ["Volatile"] : i32
    %fraction = spirv.GL.Modf %x : f32, %out : !spirv.ptr<f32, Function> -> f32
    %old = spirv.AtomicIAdd <Workgroup> <None> %p, %a : !spirv.ptr<i32, Workgroup>
    spirv.Return
  }

  // Two loads become one unless a write may occur between them.
  // CHECK:      spirv.func @loads
  spirv.func @loads() -> i32 "None" {
    // CHECK:      %[[A:.*]] = spirv.Load
    // CHECK-NEXT: spirv.ControlBarrier
    // CHECK-NEXT: %[[B:.*]] = spirv.Load
    // CHECK-NEXT: %[[SUM:.*]] = spirv.IAdd %[[A]], %[[A]] : i32
    // CHECK-NEXT: spirv.IAdd %[[SUM]], %[[B]] : i32
    %p = spirv.mlir.addressof @shared : !spirv.ptr<i32, Workgroup>
    %a = spirv.Load "Workgroup" %p : i32
    %same = spirv.Load "Workgroup" %p : i32
    spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>
    %b = spirv.Load "Workgroup" %p : i32
    %sum = spirv.IAdd %a, %same : i32
    %result = spirv.IAdd %sum, %b : i32
    spirv.ReturnValue %result : i32
  }

  // A selection that only returns early stays, because a later group operation has fewer invocations.
  // CHECK:      spirv.func @early
  spirv.func @early(%b: i1, %x: i32) -> i32 "None" {
    // CHECK-NEXT: %[[ALL:.*]] = spirv.GroupNonUniformIAdd
    // CHECK-NEXT: spirv.mlir.selection
    // CHECK:      spirv.ReturnValue %[[ALL]]
    // CHECK:      %[[REST:.*]] = spirv.GroupNonUniformIAdd
    // CHECK-NEXT: %[[SUM:.*]] = spirv.IAdd %[[REST]], %[[REST]] : i32
    %all = spirv.GroupNonUniformIAdd <Subgroup> <Reduce> %x : i32 -> i32
    spirv.mlir.selection {
      spirv.BranchConditional %b, ^leave, ^merge
    ^leave:
      spirv.ReturnValue %all : i32
    ^merge:
      spirv.mlir.merge
    }
    %rest = spirv.GroupNonUniformIAdd <Subgroup> <Reduce> %x : i32 -> i32
    %again = spirv.GroupNonUniformIAdd <Subgroup> <Reduce> %x : i32 -> i32
    %sum = spirv.IAdd %rest, %again : i32
    spirv.ReturnValue %sum : i32
  }

  // Blocks that no branch reaches stay where a construct needs them: here the continue target and
  // the merge block of the loop.
  // CHECK:      spirv.func @unreached
  spirv.func @unreached(%b: i1) "None" {
    // CHECK:      spirv.mlir.loop
    // CHECK:        spirv.mlir.selection
    // CHECK:          spirv.mlir.break 1
    // CHECK:        spirv.Unreachable
    // CHECK-NEXT: ^[[CONTINUE:.*]]:
    // CHECK-NEXT:   spirv.Branch
    // CHECK-NEXT: ^[[MERGE:.*]]:
    // CHECK-NEXT:   spirv.mlir.merge
    spirv.mlir.loop {
      spirv.Branch ^header
    ^header:
      spirv.Branch ^body
    ^body:
      spirv.mlir.selection {
        spirv.BranchConditional %b, ^leave, ^join
      ^leave:
        spirv.mlir.break 1
      ^join:
        spirv.mlir.merge
      }
      spirv.Unreachable
    ^continue:
      spirv.Branch ^header
    ^merge:
      spirv.mlir.merge
    }
    spirv.Return
  }

  // A wrapped operation is not replaced by an equal one outside.
  // CHECK:      spirv.func @wrapped
  spirv.func @wrapped() -> i32 "None" {
    // CHECK: spirv.SpecConstantOperation wraps "spirv.IAdd"
    %a = spirv.Constant 1 : i32
    %b = spirv.Constant 2 : i32
    %outside = spirv.IAdd %a, %b : i32
    %wrapped = spirv.SpecConstantOperation wraps "spirv.IAdd"(%a, %b) : (i32, i32) -> i32
    %sum = spirv.IAdd %outside, %wrapped : i32
    spirv.ReturnValue %sum : i32
  }
}
