// RUN: XDSL_ROUNDTRIP
// Group-non-uniform votes, ballots, exchanges, reductions and scans.

spirv.module Logical GLSL450 {
  spirv.func @group(%b: i1, %f: f32, %vi: vector<4xi32>, %i: i32, %vf: vector<4xf32>) "None" {
    // CHECK-LABEL: spirv.func @group
    %0 = spirv.GroupNonUniformElect <Subgroup> : i1
    // CHECK-NEXT: %0 = spirv.GroupNonUniformElect <Subgroup> : i1
    %1 = spirv.GroupNonUniformAll <Subgroup> %b : i1
    // CHECK-NEXT: %1 = spirv.GroupNonUniformAll <Subgroup> %b : i1
    %2 = spirv.GroupNonUniformAny <Subgroup> %b : i1
    // CHECK-NEXT: %2 = spirv.GroupNonUniformAny <Subgroup> %b : i1
    %3 = spirv.GroupNonUniformAllEqual <Subgroup> %f : f32, i1
    // CHECK-NEXT: %3 = spirv.GroupNonUniformAllEqual <Subgroup> %f : f32, i1
    %4 = spirv.GroupNonUniformBallot <Subgroup> %b : vector<4xi32>
    // CHECK-NEXT: %4 = spirv.GroupNonUniformBallot <Subgroup> %b : vector<4xi32>
    %5 = spirv.GroupNonUniformBallotBitCount <Subgroup> <Reduce> %vi : vector<4xi32> -> i32
    // CHECK-NEXT: %5 = spirv.GroupNonUniformBallotBitCount <Subgroup> <Reduce> %vi : vector<4xi32> -> i32
    %6 = spirv.GroupNonUniformBallotFindLSB <Subgroup> %vi : vector<4xi32>, i32
    // CHECK-NEXT: %6 = spirv.GroupNonUniformBallotFindLSB <Subgroup> %vi : vector<4xi32>, i32
    %7 = spirv.GroupNonUniformBallotFindMSB <Subgroup> %vi : vector<4xi32>, i32
    // CHECK-NEXT: %7 = spirv.GroupNonUniformBallotFindMSB <Subgroup> %vi : vector<4xi32>, i32
    %one = spirv.Constant 1 : i32
    // CHECK-NEXT: %one = spirv.Constant 1 : i32
    %8 = spirv.GroupNonUniformBroadcast <Subgroup> %f, %one : f32, i32
    // CHECK-NEXT: %8 = spirv.GroupNonUniformBroadcast <Subgroup> %f, %one : f32, i32
    %9 = spirv.GroupNonUniformShuffle <Subgroup> %f, %i : f32, i32
    // CHECK-NEXT: %9 = spirv.GroupNonUniformShuffle <Subgroup> %f, %i : f32, i32
    %10 = spirv.GroupNonUniformShuffleXor <Subgroup> %f, %i : f32, i32
    // CHECK-NEXT: %10 = spirv.GroupNonUniformShuffleXor <Subgroup> %f, %i : f32, i32
    %11 = spirv.GroupNonUniformShuffleUp <Subgroup> %f, %i : f32, i32
    // CHECK-NEXT: %11 = spirv.GroupNonUniformShuffleUp <Subgroup> %f, %i : f32, i32
    %12 = spirv.GroupNonUniformShuffleDown <Subgroup> %vf, %i : vector<4xf32>, i32
    // CHECK-NEXT: %12 = spirv.GroupNonUniformShuffleDown <Subgroup> %vf, %i : vector<4xf32>, i32
    %13 = spirv.GroupNonUniformQuadSwap <Subgroup> %f %i : f32, i32
    // CHECK-NEXT: %13 = spirv.GroupNonUniformQuadSwap <Subgroup> %f %i : f32, i32
    %14 = spirv.GroupNonUniformIAdd <Subgroup> <Reduce> %i : i32 -> i32
    // CHECK-NEXT: %14 = spirv.GroupNonUniformIAdd <Subgroup> <Reduce> %i : i32 -> i32
    %15 = spirv.GroupNonUniformFAdd <Subgroup> <Reduce> %f : f32 -> f32
    // CHECK-NEXT: %15 = spirv.GroupNonUniformFAdd <Subgroup> <Reduce> %f : f32 -> f32
    %16 = spirv.GroupNonUniformIMul <Subgroup> <InclusiveScan> %i : i32 -> i32
    // CHECK-NEXT: %16 = spirv.GroupNonUniformIMul <Subgroup> <InclusiveScan> %i : i32 -> i32
    %17 = spirv.GroupNonUniformFMul <Subgroup> <Reduce> %f : f32 -> f32
    // CHECK-NEXT: %17 = spirv.GroupNonUniformFMul <Subgroup> <Reduce> %f : f32 -> f32
    %18 = spirv.GroupNonUniformSMin <Subgroup> <Reduce> %i : i32 -> i32
    // CHECK-NEXT: %18 = spirv.GroupNonUniformSMin <Subgroup> <Reduce> %i : i32 -> i32
    %19 = spirv.GroupNonUniformUMin <Subgroup> <Reduce> %i : i32 -> i32
    // CHECK-NEXT: %19 = spirv.GroupNonUniformUMin <Subgroup> <Reduce> %i : i32 -> i32
    %20 = spirv.GroupNonUniformFMin <Subgroup> <Reduce> %f : f32 -> f32
    // CHECK-NEXT: %20 = spirv.GroupNonUniformFMin <Subgroup> <Reduce> %f : f32 -> f32
    %21 = spirv.GroupNonUniformSMax <Subgroup> <Reduce> %i : i32 -> i32
    // CHECK-NEXT: %21 = spirv.GroupNonUniformSMax <Subgroup> <Reduce> %i : i32 -> i32
    %22 = spirv.GroupNonUniformUMax <Subgroup> <Reduce> %i : i32 -> i32
    // CHECK-NEXT: %22 = spirv.GroupNonUniformUMax <Subgroup> <Reduce> %i : i32 -> i32
    %23 = spirv.GroupNonUniformFMax <Subgroup> <Reduce> %f : f32 -> f32
    // CHECK-NEXT: %23 = spirv.GroupNonUniformFMax <Subgroup> <Reduce> %f : f32 -> f32
    %24 = spirv.GroupNonUniformBitwiseAnd <Subgroup> <Reduce> %i : i32 -> i32
    // CHECK-NEXT: %24 = spirv.GroupNonUniformBitwiseAnd <Subgroup> <Reduce> %i : i32 -> i32
    %25 = spirv.GroupNonUniformBitwiseOr <Subgroup> <Reduce> %i : i32 -> i32
    // CHECK-NEXT: %25 = spirv.GroupNonUniformBitwiseOr <Subgroup> <Reduce> %i : i32 -> i32
    %26 = spirv.GroupNonUniformBitwiseXor <Subgroup> <Reduce> %i : i32 -> i32
    // CHECK-NEXT: %26 = spirv.GroupNonUniformBitwiseXor <Subgroup> <Reduce> %i : i32 -> i32
    %27 = spirv.GroupNonUniformLogicalAnd <Subgroup> <Reduce> %b : i1 -> i1
    // CHECK-NEXT: %27 = spirv.GroupNonUniformLogicalAnd <Subgroup> <Reduce> %b : i1 -> i1
    %28 = spirv.GroupNonUniformLogicalOr <Subgroup> <Reduce> %b : i1 -> i1
    // CHECK-NEXT: %28 = spirv.GroupNonUniformLogicalOr <Subgroup> <Reduce> %b : i1 -> i1
    %29 = spirv.GroupNonUniformLogicalXor <Subgroup> <Reduce> %b : i1 -> i1
    // CHECK-NEXT: %29 = spirv.GroupNonUniformLogicalXor <Subgroup> <Reduce> %b : i1 -> i1
    %four = spirv.Constant 4 : i32
    // CHECK-NEXT: %four = spirv.Constant 4 : i32
    %30 = spirv.GroupNonUniformFAdd <Subgroup> <ClusteredReduce> %f cluster_size(%four) : f32, i32 -> f32
    // CHECK-NEXT: %30 = spirv.GroupNonUniformFAdd <Subgroup> <ClusteredReduce> %f cluster_size(%four) : f32, i32 -> f32
    spirv.Return
  }
}

// -----

// EXTENSION: not in MLIR's dialect.

spirv.module Logical GLSL450 {
  spirv.func @group_extensions(%vi: vector<4xi32>, %i: i32, %f: f32) "None" {
    // CHECK-LABEL: spirv.func @group_extensions
    %0 = spirv.GroupNonUniformInverseBallot <Subgroup> %vi : vector<4xi32>, i1
    // CHECK-NEXT: %0 = spirv.GroupNonUniformInverseBallot <Subgroup> %vi : vector<4xi32>, i1
    %1 = spirv.GroupNonUniformBallotBitExtract <Subgroup> %vi, %i : vector<4xi32>, i32
    // CHECK-NEXT: %1 = spirv.GroupNonUniformBallotBitExtract <Subgroup> %vi, %i : vector<4xi32>, i32
    %2 = spirv.GroupNonUniformBroadcastFirst <Subgroup> %f : f32
    // CHECK-NEXT: %2 = spirv.GroupNonUniformBroadcastFirst <Subgroup> %f : f32
    %3 = spirv.GroupNonUniformQuadBroadcast <Subgroup> %f, %i : f32, i32
    // CHECK-NEXT: %3 = spirv.GroupNonUniformQuadBroadcast <Subgroup> %f, %i : f32, i32
    spirv.Return
  }
}
