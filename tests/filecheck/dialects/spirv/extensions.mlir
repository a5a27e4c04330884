// RUN: XDSL_ROUNDTRIP

// EXTENSION: sizes and scopes that specialization constants decide.
spirv.module Logical Vulkan {
  spirv.SpecConstant @m spec_id(0) = 16 : i32
  spirv.SpecConstant @n spec_id(1) = 8 : i32
  spirv.SpecConstant @scope spec_id(2) = 3 : i32
  spirv.SpecConstant @zero = 0.0 : f32
  spirv.GlobalVariable @tile : !spirv.ptr<!spirv.array<@m x !spirv.array<@n x f32>>, Workgroup>
  spirv.SpecConstantComposite @matrix (@zero) : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
  spirv.func @f() "None" {
    %0 = spirv.Undef : !spirv.coopmatrix<@m x @n x f32, @scope, MatrixAcc>
    %1 = spirv.Undef : !spirv.coopmatrix<16x@n x f16, Subgroup, MatrixA>
    %2 = spirv.Undef : !spirv.coopmatrix<@m x 16xf16, @scope, MatrixA>
    %3 = spirv.mlir.referenceof @matrix : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.SpecConstant @m spec_id(0) = 16 : i32
// CHECK-NEXT:     spirv.SpecConstant @n spec_id(1) = 8 : i32
// CHECK-NEXT:     spirv.SpecConstant @scope spec_id(2) = 3 : i32
// CHECK-NEXT:     spirv.SpecConstant @zero = 0.000000e+00 : f32
// CHECK-NEXT:     spirv.GlobalVariable @tile : !spirv.ptr<!spirv.array<@m x !spirv.array<@n x f32>>, Workgroup>
// CHECK-NEXT:     spirv.SpecConstantComposite @matrix (@zero) : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NEXT:     spirv.func @f() "None" {
// CHECK-NEXT:       %0 = spirv.Undef : !spirv.coopmatrix<@m x @n x f32, @scope, MatrixAcc>
// CHECK-NEXT:       %1 = spirv.Undef : !spirv.coopmatrix<16x@n x f16, Subgroup, MatrixA>
// CHECK-NEXT:       %2 = spirv.Undef : !spirv.coopmatrix<@m x 16xf16, @scope, MatrixA>
// CHECK-NEXT:       %3 = spirv.mlir.referenceof @matrix : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: a null of any type, 8-bit floats, composites of composites.
spirv.module Logical Vulkan {
  spirv.SpecConstant @x = 1.0 : f32
  spirv.SpecConstantComposite @v (@x, @x) : vector<2xf32>
  spirv.SpecConstantComposite @s (@v, @x) : !spirv.struct<(vector<2xf32>, f32)>
  spirv.func @f() "None" {
    %0 = spirv.ConstantNull : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
    %1 = spirv.ConstantNull : !spirv.struct<(f32, !spirv.array<4 x i32>)>
    %2 = spirv.ConstantNull : vector<4xf32>
    %3 = spirv.Constant 1.5 : f8E4M3FN
    %4 = spirv.Constant dense<0.5> : vector<4xf8E5M2>
    %5 = spirv.Constant [1 : i32, [dense<0.0> : vector<2xf32>, 2.0 : f32]] : !spirv.struct<(i32, !spirv.struct<(vector<2xf32>, f32)>)>
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.SpecConstant @x = 1.000000e+00 : f32
// CHECK-NEXT:     spirv.SpecConstantComposite @v (@x, @x) : vector<2xf32>
// CHECK-NEXT:     spirv.SpecConstantComposite @s (@v, @x) : !spirv.struct<(vector<2xf32>, f32)>
// CHECK-NEXT:     spirv.func @f() "None" {
// CHECK-NEXT:       %0 = spirv.ConstantNull : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK-NEXT:       %1 = spirv.ConstantNull : !spirv.struct<(f32, !spirv.array<4 x i32>)>
// CHECK-NEXT:       %2 = spirv.ConstantNull : vector<4xf32>
// CHECK-NEXT:       %3 = spirv.Constant 1.500000e+00 : f8E4M3FN
// CHECK-NEXT:       %4 = spirv.Constant dense<5.000000e-01> : vector<4xf8E5M2>
// CHECK-NEXT:       %5 = spirv.Constant [1 : i32, [dense<0.000000e+00> : vector<2xf32>, 2.000000e+00 : f32]] : !spirv.struct<(i32, !spirv.struct<(vector<2xf32>, f32)>)>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: memory operands with their scope.
spirv.module Logical Vulkan {
  spirv.SpecConstant @scope = 2 : i32
  spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>, %v: !spirv.ptr<f32, Function>) "None" {
    %0 = spirv.Load "StorageBuffer" %p ["MakePointerVisible|NonPrivatePointer", scope(<QueueFamily>)] : f32
    %1 = spirv.Load "StorageBuffer" %p ["Aligned|MakePointerVisible|NonPrivatePointer", 4, scope(@scope)] : f32
    spirv.Store "StorageBuffer" %p, %0 ["MakePointerAvailable|NonPrivatePointer", scope(<Workgroup>)] : f32
    spirv.CopyMemory "StorageBuffer" %p, "StorageBuffer" %p ["MakePointerAvailable|NonPrivatePointer", scope(<Device>)], ["MakePointerVisible|NonPrivatePointer", scope(<Device>)] : f32
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.SpecConstant @scope = 2 : i32
// CHECK-NEXT:     spirv.func @f(%p: !spirv.ptr<f32, StorageBuffer>, %v: !spirv.ptr<f32, Function>) "None" {
// CHECK-NEXT:       %0 = spirv.Load "StorageBuffer" %p ["MakePointerVisible|NonPrivatePointer", scope(<QueueFamily>)] : f32
// CHECK-NEXT:       %1 = spirv.Load "StorageBuffer" %p ["Aligned|MakePointerVisible|NonPrivatePointer", 4, scope(@scope)] : f32
// CHECK-NEXT:       spirv.Store "StorageBuffer" %p, %0 ["MakePointerAvailable|NonPrivatePointer", scope(<Workgroup>)] : f32
// CHECK-NEXT:       spirv.CopyMemory "StorageBuffer" %p, "StorageBuffer" %p ["MakePointerAvailable|NonPrivatePointer", scope(<Device>)], ["MakePointerVisible|NonPrivatePointer", scope(<Device>)] : f32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: instructions of the core that MLIR does not have.
spirv.func @f(%p: !spirv.ptr<!spirv.struct<(i32 [0], !spirv.rtarray<f32, stride=4> [4])>, StorageBuffer>, %i: i32) "None" {
  %one = spirv.Constant 1 : i32
  %0 = spirv.InBoundsAccessChain %p[%one, %i] : !spirv.ptr<!spirv.struct<(i32 [0], !spirv.rtarray<f32, stride=4> [4])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
  %1 = spirv.ArrayLength %p[1] : !spirv.ptr<!spirv.struct<(i32 [0], !spirv.rtarray<f32, stride=4> [4])>, StorageBuffer> -> i32
  %2 = spirv.CopyObject %i : i32
  spirv.Return
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.func @f(%p: !spirv.ptr<!spirv.struct<(i32 [0], !spirv.rtarray<f32, stride=4> [4])>, StorageBuffer>, %i: i32) "None" {
// CHECK-NEXT:     %one = spirv.Constant 1 : i32
// CHECK-NEXT:     %0 = spirv.InBoundsAccessChain %p[%one, %i] : !spirv.ptr<!spirv.struct<(i32 [0], !spirv.rtarray<f32, stride=4> [4])>, StorageBuffer>, i32, i32 -> !spirv.ptr<f32, StorageBuffer>
// CHECK-NEXT:     %1 = spirv.ArrayLength %p[1] : !spirv.ptr<!spirv.struct<(i32 [0], !spirv.rtarray<f32, stride=4> [4])>, StorageBuffer> -> i32
// CHECK-NEXT:     %2 = spirv.CopyObject %i : i32
// CHECK-NEXT:     spirv.Return
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: attributes of a selection or a loop, masks of several bits.
spirv.func @f(%c: i1) "None" {
  spirv.mlir.selection attributes {note = "kept"} {
    spirv.BranchConditional %c, ^merge, ^merge
  ^merge:
    spirv.mlir.merge
  }
  spirv.mlir.loop control(Unroll|DependencyInfinite) {
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

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.func @f(%c: i1) "None" {
// CHECK-NEXT:     spirv.mlir.selection attributes {note = "kept"} {
// CHECK-NEXT:       spirv.BranchConditional %c, ^merge, ^merge
// CHECK-NEXT:     ^merge:
// CHECK-NEXT:       spirv.mlir.merge
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.mlir.loop control(Unroll|DependencyInfinite) {
// CHECK-NEXT:       spirv.Branch ^header
// CHECK-NEXT:     ^header:
// CHECK-NEXT:       spirv.BranchConditional %c, ^continue, ^merge_1
// CHECK-NEXT:     ^continue:
// CHECK-NEXT:       spirv.Branch ^header
// CHECK-NEXT:     ^merge_1:
// CHECK-NEXT:       spirv.mlir.merge
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.Return
// CHECK-NEXT:   }
// CHECK-NEXT: }
