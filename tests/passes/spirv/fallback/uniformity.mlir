// For test_uniformity.py: `together` says whether all invocations of a workgroup execute an operation, or none.

spirv.module Logical GLSL450 {
  spirv.GlobalVariable @local built_in("LocalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
  spirv.GlobalVariable @group built_in("WorkgroupId") : !spirv.ptr<vector<3xi32>, Input>
  spirv.GlobalVariable @push : !spirv.ptr<!spirv.struct<(i32 [0]), Block>, PushConstant>
  spirv.func @helper() "None" {
    spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory> {together = true}
    spirv.Return
  }
  spirv.func @sometimes() "None" {
    spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory> {together = false}
    spirv.Return
  }
  spirv.func @main() "None" {
    %zero = spirv.Constant 0 : i32
    %four = spirv.Constant 4 : i32
    %v = spirv.Variable : !spirv.ptr<i32, Function>
    %w = spirv.Variable : !spirv.ptr<i32, Function>
    %lp = spirv.mlir.addressof @local : !spirv.ptr<vector<3xi32>, Input>
    %gp = spirv.mlir.addressof @group : !spirv.ptr<vector<3xi32>, Input>
    %pp = spirv.mlir.addressof @push : !spirv.ptr<!spirv.struct<(i32 [0]), Block>, PushConstant>
    %ls = spirv.Load "Input" %lp : vector<3xi32>
    %gs = spirv.Load "Input" %gp : vector<3xi32>
    %l = spirv.CompositeExtract %ls[0 : i32] : vector<3xi32>
    %g = spirv.CompositeExtract %gs[0 : i32] : vector<3xi32>
    %np = spirv.AccessChain %pp[%zero] : !spirv.ptr<!spirv.struct<(i32 [0]), Block>, PushConstant>, i32 -> !spirv.ptr<i32, PushConstant>
    %n = spirv.Load "PushConstant" %np : i32
    spirv.FunctionCall @helper() : () -> ()
    // A workgroup's number and a push constant are the same for all.
    %sum = spirv.IAdd %g, %n : i32
    %same = spirv.ULessThan %sum, %four : i32
    spirv.mlir.selection {
      spirv.BranchConditional %same, ^then, ^end
    ^then:
      spirv.Store "Function" %v, %sum {together = true} : i32
      spirv.Branch ^end
    ^end:
      spirv.mlir.merge
    }
    // An invocation's own number is not.
    %own = spirv.ULessThan %l, %four : i32
    spirv.mlir.selection {
      spirv.BranchConditional %own, ^then, ^end
    ^then:
      spirv.Store "Function" %w, %four {together = false} : i32
      spirv.FunctionCall @sometimes() : () -> ()
      spirv.Branch ^end
    ^end:
      spirv.mlir.merge
    }
    // Nor is a variable that was stored to by some.
    %a = spirv.Load "Function" %v : i32
    %b = spirv.Load "Function" %w : i32
    %all = spirv.ULessThan %a, %four : i32
    %some = spirv.ULessThan %b, %four : i32
    spirv.mlir.selection {
      spirv.BranchConditional %all, ^then, ^end
    ^then:
      spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory> {together = true}
      spirv.Branch ^end
    ^end:
      spirv.mlir.merge
    }
    spirv.mlir.selection {
      spirv.BranchConditional %some, ^then, ^end
    ^then:
      spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory> {together = false}
      spirv.Branch ^end
    ^end:
      spirv.mlir.merge
    }
    // Behind a loop whose invocations leave it at different times they are together again.
    spirv.mlir.loop {
      spirv.Branch ^header(%zero : i32)
    ^header(%i: i32):
      %more = spirv.ULessThan %i, %l : i32
      spirv.BranchConditional %more, ^body, ^end
    ^body:
      %next = spirv.IAdd %i, %four {together = false} : i32
      spirv.Branch ^continue
    ^continue:
      spirv.Branch ^header(%next : i32)
    ^end:
      spirv.mlir.merge
    }
    spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory> {together = true}
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @local, @group
  spirv.ExecutionMode @main "LocalSize", 8, 1, 1
}
