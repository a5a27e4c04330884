// RUN: xdsl-opt %s -p canonicalize,cse | filecheck %s

spirv.module Logical Vulkan {
  spirv.SpecConstant @n spec_id(0) = 4 : i32

  // CHECK:      spirv.func @constants
  spirv.func @constants() -> i32 "None" {
    // Signed and unsigned division read the same bits; the result is cut to its width.
    // CHECK-NEXT: %[[VALUE:.*]] = spirv.Constant 1431655772 : i32
    // CHECK-NEXT: spirv.ReturnValue %[[VALUE]] : i32
    %minus_one = spirv.Constant -1 : i32
    %three = spirv.Constant 3 : i32
    %four = spirv.Constant 4 : i32
    %signed = spirv.SDiv %minus_one, %three : i32
    %unsigned = spirv.UDiv %minus_one, %three : i32
    %less = spirv.SLessThan %minus_one, %three : i32
    %taken = spirv.Select %less, %three, %four : i1, i32
    %sum = spirv.IAdd %signed, %unsigned : i32
    %sum2 = spirv.IAdd %sum, %taken : i32
    %sum3 = spirv.IAdd %sum2, %four : i32
    spirv.ReturnValue %sum3 : i32
  }

  // CHECK:      spirv.func @vectors
  spirv.func @vectors(%v: vector<2xi32>) -> vector<2xi32> "None" {
    // CHECK-NEXT: %[[SUM:.*]] = spirv.Constant dense<[4, 6]> : vector<2xi32>
    // CHECK-NEXT: %[[RESULT:.*]] = spirv.IAdd %v, %[[SUM]] : vector<2xi32>
    // CHECK-NEXT: spirv.ReturnValue %[[RESULT]] : vector<2xi32>
    %zero = spirv.ConstantNull : vector<2xi32>
    %a = spirv.Constant dense<[1, 2]> : vector<2xi32>
    %b = spirv.Constant dense<[3, 4]> : vector<2xi32>
    %sum = spirv.IAdd %a, %b : vector<2xi32>
    %same = spirv.IAdd %zero, %v : vector<2xi32>
    %result = spirv.IAdd %sum, %same : vector<2xi32>
    spirv.ReturnValue %result : vector<2xi32>
  }

  // Undefined values stay, and so do values that a decoration, an execution mode or a device determines.
  // CHECK:      spirv.func @stays
  spirv.func @stays(%x: i32) -> f16 "None" {
    // CHECK:      spirv.UDiv
    // CHECK-NEXT: spirv.ShiftLeftLogical
    // CHECK-NEXT: spirv.IAdd %{{.*}}, %{{.*}} {no_signed_wrap} : i32
    // CHECK-NEXT: spirv.FAdd
    // CHECK-NEXT: spirv.FConvert
    %p = spirv.Variable : !spirv.ptr<i32, Function>
    %zero = spirv.Constant 0 : i32
    %wide = spirv.Constant 32 : i32
    %third = spirv.Constant 0.333333343 : f32
    %quotient = spirv.UDiv %wide, %zero : i32
    %shifted = spirv.ShiftLeftLogical %quotient, %wide : i32, i32
    %wrapped = spirv.IAdd %wide, %wide {no_signed_wrap} : i32
    %sum = spirv.FAdd %third, %third : f32
    %half = spirv.FConvert %sum : f32 to f16
    spirv.Store "Function" %p, %shifted : i32
    spirv.Store "Function" %p, %wrapped : i32
    spirv.ReturnValue %half : f16
  }

  // CHECK:      spirv.func @exact
  spirv.func @exact() -> f16 "None" {
    // CHECK-NEXT: %[[HALF:.*]] = spirv.Constant 5.000000e-01 : f16
    // CHECK-NEXT: spirv.ReturnValue %[[HALF]] : f16
    %value = spirv.Constant 5.000000e-01 : f32
    %half = spirv.FConvert %value : f32 to f16
    spirv.ReturnValue %half : f16
  }

  // CHECK:      spirv.func @composites
  spirv.func @composites(%x: f32, %y: f32) -> f32 "None" {
    // CHECK-NEXT: spirv.ReturnValue %y : f32
    %v = spirv.CompositeConstruct %x, %x : (f32, f32) -> vector<2xf32>
    %w = spirv.CompositeInsert %y, %v[1 : i32] : f32 into vector<2xf32>
    %u = spirv.CompositeInsert %x, %w[0 : i32] : f32 into vector<2xf32>
    %part = spirv.CompositeExtract %u[1 : i32] : vector<2xf32>
    %copy = spirv.CopyObject %part : f32
    spirv.ReturnValue %copy : f32
  }

  // CHECK:      spirv.func @commuted
  spirv.func @commuted(%x: i32) -> i32 "None" {
    // CHECK-NEXT: %[[THREE:.*]] = spirv.Constant 3 : i32
    // CHECK-NEXT: %[[PRODUCT:.*]] = spirv.IMul %x, %[[THREE]] : i32
    // CHECK-NEXT: %[[SUM:.*]] = spirv.IAdd %[[PRODUCT]], %[[PRODUCT]] : i32
    %three = spirv.Constant 3 : i32
    %a = spirv.IMul %three, %x : i32
    %b = spirv.IMul %x, %three : i32
    %sum = spirv.IAdd %a, %b : i32
    spirv.ReturnValue %sum : i32
  }

  // CHECK:      spirv.func @chains
  spirv.func @chains(%p: !spirv.ptr<!spirv.array<4 x vector<4xf32>>, Function>, %i: i32, %j: i32) -> f32 "None" {
    // CHECK-NEXT: %[[CHAIN:.*]] = spirv.AccessChain %p[%i, %j]
    // CHECK-NEXT: %[[VALUE:.*]] = spirv.Load "Function" %[[CHAIN]] : f32
    // CHECK-NEXT: spirv.ReturnValue %[[VALUE]] : f32
    %row = spirv.AccessChain %p[%i] : !spirv.ptr<!spirv.array<4 x vector<4xf32>>, Function>, i32 -> !spirv.ptr<vector<4xf32>, Function>
    %element = spirv.AccessChain %row[%j] : !spirv.ptr<vector<4xf32>, Function>, i32 -> !spirv.ptr<f32, Function>
    %value = spirv.Load "Function" %element : f32
    spirv.ReturnValue %value : f32
  }

  // The operation of a specialization constant is folded completely, or not at all.
  // CHECK:      spirv.func @specialized
  spirv.func @specialized() -> i32 "None" {
    // CHECK-NEXT: %[[ZERO:.*]] = spirv.Constant 0 : i32
    // CHECK-NEXT: %[[N:.*]] = spirv.mlir.referenceof @n : i32
    // CHECK-NEXT: %[[SUM:.*]] = spirv.SpecConstantOperation wraps "spirv.IAdd"(%[[ZERO]], %[[N]]) : (i32, i32) -> i32
    // CHECK-NEXT: %[[SEVEN:.*]] = spirv.Constant 7 : i32
    // CHECK-NEXT: %[[RESULT:.*]] = spirv.IAdd %[[SUM]], %[[SEVEN]] : i32
    %zero = spirv.Constant 0 : i32
    %three = spirv.Constant 3 : i32
    %four = spirv.Constant 4 : i32
    %n = spirv.mlir.referenceof @n : i32
    %sum = spirv.SpecConstantOperation wraps "spirv.IAdd"(%zero, %n) : (i32, i32) -> i32
    %seven = spirv.SpecConstantOperation wraps "spirv.IAdd"(%three, %four) : (i32, i32) -> i32
    %result = spirv.IAdd %sum, %seven : i32
    spirv.ReturnValue %result : i32
  }

  // CHECK:      spirv.func @selections
  spirv.func @selections(%x: i32, %y: i32) -> i32 "None" {
    // CHECK-NEXT: %[[SUM:.*]] = spirv.IAdd %x, %y : i32
    // CHECK-NEXT: %[[PRODUCT:.*]] = spirv.IMul %[[SUM]], %y : i32
    // CHECK-NEXT: spirv.ReturnValue %[[PRODUCT]] : i32
    %true = spirv.Constant true
    %two = spirv.Constant 2 : i32
    %sum = spirv.mlir.selection -> i32 {
      spirv.BranchConditional %true, ^then, ^merge(%x : i32)
    ^then:
      %s = spirv.IAdd %x, %y : i32
      spirv.Branch ^merge(%s : i32)
    ^merge(%r: i32):
      spirv.mlir.merge %r : i32
    }
    %product = spirv.mlir.selection -> i32 {
      spirv.Switch %two : i32, [default: ^other, 2: ^two]
    ^other:
      spirv.Branch ^merge(%x : i32)
    ^two:
      %s = spirv.IMul %sum, %y : i32
      spirv.Branch ^merge(%s : i32)
    ^merge(%r: i32):
      spirv.mlir.merge %r : i32
    }
    spirv.ReturnValue %product : i32
  }

  // A break counts the constructs that it leaves, so the selection around it stays.
  // CHECK:      spirv.func @breaks
  spirv.func @breaks(%b: i1) "None" {
    // CHECK:      spirv.mlir.loop
    // CHECK:      spirv.mlir.selection
    // CHECK:      spirv.mlir.break 1
    %true = spirv.Constant true
    spirv.mlir.loop {
      spirv.Branch ^header
    ^header:
      spirv.BranchConditional %b, ^body, ^merge
    ^body:
      spirv.mlir.selection {
        spirv.BranchConditional %true, ^leave, ^join
      ^leave:
        spirv.mlir.break 1
      ^join:
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
}
