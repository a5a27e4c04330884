// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s
// Instructions of each family are refused with these errors.

spirv.module Logical GLSL450 {
  spirv.func @float_add_of_integers(%a: i32) "None" {
    // CHECK: spirv.FAdd takes floating-point scalars or vectors or cooperative matrices, not i32
    %0 = spirv.FAdd %a, %a : i32
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @integer_add_of_booleans(%a: i1) "None" {
    // CHECK: spirv.IAdd takes integer scalars or vectors or cooperative matrices, not i1
    %0 = spirv.IAdd %a, %a : i1
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @remainder_of_matrices(%a: !spirv.coopmatrix<8x8xi32, Subgroup, MatrixAcc>) "None" {
    // CHECK: spirv.SRem takes scalars and vectors, not !spirv.coopmatrix<8x8xi32, Subgroup, MatrixAcc>
    %0 = spirv.SRem %a, %a : !spirv.coopmatrix<8x8xi32, Subgroup, MatrixAcc>
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @conversion_of_shape(%a: vector<4xf32>) "None" {
    // CHECK: spirv.ConvertFToS cannot change the number of components: vector<4xf32> to vector<3xi32>
    %0 = spirv.ConvertFToS %a : vector<4xf32> to vector<3xi32>
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @conversion_to_itself(%a: i32) "None" {
    // CHECK: spirv.SConvert must change the component's width, not i32 to i32
    %0 = spirv.SConvert %a : i32 to i32
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @bitcast_of_size(%a: i64) "None" {
    // CHECK: spirv.Bitcast: i64 has 64 bits, but f32 has 32
    %0 = spirv.Bitcast %a : i64 to f32
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @shift_of_floats(%a: f32, %b: i32) "None" {
    // CHECK: spirv.ShiftLeftLogical takes integer scalars or vectors, not f32
    %0 = spirv.ShiftLeftLogical %a, %b : f32, i32
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @condition_of_length(%c: vector<3xi1>, %a: vector<4xf32>) "None" {
    // CHECK: a condition of type vector<3xi1> selects components of a vector of that length
    %0 = spirv.Select %c, %a, %a : vector<3xi1>, vector<4xf32>
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @extract_outside(%a: !spirv.struct<(f32, i32)>) "None" {
    // CHECK: index 0 is 2, but !spirv.struct<(f32, i32)> has 2 constituents
    %0 = spirv.CompositeExtract %a[2 : i32] : !spirv.struct<(f32, i32)>
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @construct_short(%a: f32) "None" {
    // CHECK: vector<3xf32> needs 3 components, 2 are given
    %0 = spirv.CompositeConstruct %a, %a : (f32, f32) -> vector<3xf32>
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @shuffle_outside(%a: vector<2xf32>) "None" {
    // CHECK: component 4 does not exist; use -1 (undefined) or a number below 4
    %0 = spirv.VectorShuffle [0 : i32, 4 : i32] %a, %a : vector<2xf32>, vector<2xf32> -> vector<2xf32>
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @partition_without_ballot(%a: f32) "None" {
    // CHECK: an operation on a partition needs the ballot of the part, written in place of a cluster_size
    %0 = spirv.GroupNonUniformFAdd <Subgroup> <PartitionedReduceNV> %a : f32 -> f32
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @clustered_without_size(%a: f32) "None" {
    // CHECK: ClusteredReduce needs a cluster_size, and no other operation has one
    %0 = spirv.GroupNonUniformFAdd <Subgroup> <ClusteredReduce> %a : f32 -> f32
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @vote_of_the_device(%a: i1) "None" {
    // CHECK: the execution scope must be Workgroup or Subgroup, not Device
    %0 = spirv.GroupNonUniformAll <Device> %a : i1
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @atomic_of_floats(%p: !spirv.ptr<f32, StorageBuffer>, %v: f32) "None" {
    // CHECK: spirv.AtomicIAdd needs a pointer to integer scalars, not !spirv.ptr<f32, StorageBuffer>
    %0 = spirv.AtomicIAdd <Device> <None> %p, %v : !spirv.ptr<f32, StorageBuffer>
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @packing(%a: vector<3xf32>) "None" {
    // CHECK: spirv.GL.PackHalf2x16: the operand must be vector<2xf32>, not vector<3xf32>
    %0 = spirv.GL.PackHalf2x16 %a : vector<3xf32> -> i32
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @operands(%x: f32, %e: i32) "None" {
    // CHECK: expected 2 operands, got 1
    %0 = spirv.GL.Ldexp %x : f32 -> f32
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @variable() "None" {
    // CHECK: expected a pointer's type, got f32
    %0 = spirv.Variable : f32
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  spirv.func @variable() "None" {
    // CHECK: expected a !spirv.ptr, got !spirv.untyped_ptr<Function>
    %0 = spirv.Variable : !spirv.untyped_ptr<Function>
    spirv.Return
  }
}

// -----

spirv.module Logical GLSL450 {
  // CHECK: 'Fragments' is not a ExecutionModel
  spirv.EntryPoint "Fragments" @main
}
