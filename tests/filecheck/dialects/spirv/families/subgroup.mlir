// RUN: XDSL_ROUNDTRIP

// MLIR has these.
spirv.module Physical64 OpenCL {
  spirv.func @groups(%i: i32, %f: f32, %p: i1, %id: vector<3xi32>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "groups", linkage_type = <Export>>} {
    %0 = spirv.GroupBroadcast <Workgroup> %f, %id : f32, vector<3xi32>
    %1 = spirv.GroupIAdd <Workgroup> <Reduce> %i : i32
    %2 = spirv.GroupFAdd <Workgroup> <InclusiveScan> %f : f32
    %3 = spirv.GroupFMin <Workgroup> <Reduce> %f : f32
    %4 = spirv.GroupUMin <Workgroup> <Reduce> %i : i32
    %5 = spirv.GroupSMin <Workgroup> <Reduce> %i : i32
    %6 = spirv.GroupFMax <Workgroup> <Reduce> %f : f32
    %7 = spirv.GroupUMax <Workgroup> <Reduce> %i : i32
    %8 = spirv.GroupSMax <Workgroup> <Reduce> %i : i32
    %9 = spirv.KHR.GroupIMul <Subgroup> <ExclusiveScan> %i : i32
    %10 = spirv.KHR.GroupFMul <Workgroup> <Reduce> %f : f32
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Physical64 OpenCL {
// CHECK-NEXT:     spirv.func @groups(%i: i32, %f: f32, %p: i1, %id: vector<3xi32>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "groups", linkage_type = <Export>>} {
// CHECK-NEXT:       %0 = spirv.GroupBroadcast <Workgroup> %f, %id : f32, vector<3xi32>
// CHECK-NEXT:       %1 = spirv.GroupIAdd <Workgroup> <Reduce> %i : i32
// CHECK-NEXT:       %2 = spirv.GroupFAdd <Workgroup> <InclusiveScan> %f : f32
// CHECK-NEXT:       %3 = spirv.GroupFMin <Workgroup> <Reduce> %f : f32
// CHECK-NEXT:       %4 = spirv.GroupUMin <Workgroup> <Reduce> %i : i32
// CHECK-NEXT:       %5 = spirv.GroupSMin <Workgroup> <Reduce> %i : i32
// CHECK-NEXT:       %6 = spirv.GroupFMax <Workgroup> <Reduce> %f : f32
// CHECK-NEXT:       %7 = spirv.GroupUMax <Workgroup> <Reduce> %i : i32
// CHECK-NEXT:       %8 = spirv.GroupSMax <Workgroup> <Reduce> %i : i32
// CHECK-NEXT:       %9 = spirv.KHR.GroupIMul <Subgroup> <ExclusiveScan> %i : i32
// CHECK-NEXT:       %10 = spirv.KHR.GroupFMul <Workgroup> <Reduce> %f : f32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: the votes, and the other uniform reductions.
spirv.module Physical64 OpenCL {
  spirv.func @more(%i: i32, %p: i1) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "more", linkage_type = <Export>>} {
    %0 = spirv.GroupAll <Workgroup> %p : i1
    %1 = spirv.GroupAny <Subgroup> %p : i1
    %2 = spirv.KHR.GroupBitwiseAnd <Workgroup> <Reduce> %i : i32
    %3 = spirv.KHR.GroupBitwiseOr <Workgroup> <Reduce> %i : i32
    %4 = spirv.KHR.GroupBitwiseXor <Workgroup> <Reduce> %i : i32
    %5 = spirv.KHR.GroupLogicalAnd <Workgroup> <Reduce> %p : i1
    %6 = spirv.KHR.GroupLogicalOr <Workgroup> <Reduce> %p : i1
    %7 = spirv.KHR.GroupLogicalXor <Workgroup> <Reduce> %p : i1
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Physical64 OpenCL {
// CHECK-NEXT:     spirv.func @more(%i: i32, %p: i1) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "more", linkage_type = <Export>>} {
// CHECK-NEXT:       %0 = spirv.GroupAll <Workgroup> %p : i1
// CHECK-NEXT:       %1 = spirv.GroupAny <Subgroup> %p : i1
// CHECK-NEXT:       %2 = spirv.KHR.GroupBitwiseAnd <Workgroup> <Reduce> %i : i32
// CHECK-NEXT:       %3 = spirv.KHR.GroupBitwiseOr <Workgroup> <Reduce> %i : i32
// CHECK-NEXT:       %4 = spirv.KHR.GroupBitwiseXor <Workgroup> <Reduce> %i : i32
// CHECK-NEXT:       %5 = spirv.KHR.GroupLogicalAnd <Workgroup> <Reduce> %p : i1
// CHECK-NEXT:       %6 = spirv.KHR.GroupLogicalOr <Workgroup> <Reduce> %p : i1
// CHECK-NEXT:       %7 = spirv.KHR.GroupLogicalXor <Workgroup> <Reduce> %p : i1
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

spirv.module Logical Vulkan {
  spirv.func @ballot() "None" {
    %p = spirv.Constant true
    %0 = spirv.KHR.SubgroupBallot %p : vector<4xi32>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @ballot
  spirv.ExecutionMode @ballot "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @ballot() "None" {
// CHECK-NEXT:       %p = spirv.Constant true
// CHECK-NEXT:       %0 = spirv.KHR.SubgroupBallot %p : vector<4xi32>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @ballot
// CHECK-NEXT:     spirv.ExecutionMode @ballot "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: SPV_KHR_shader_ballot, SPV_KHR_subgroup_vote, quads and partitions.
spirv.module Logical Vulkan {
  spirv.func @subgroup() "None" {
    %p = spirv.Constant true
    %i = spirv.Constant 3 : i32
    %f = spirv.Constant 1.0 : f32
    %0 = spirv.KHR.SubgroupAll %p : i1
    %1 = spirv.KHR.SubgroupAny %p : i1
    %2 = spirv.KHR.SubgroupAllEqual %p : i1
    %3 = spirv.KHR.SubgroupFirstInvocation %f : f32
    %4 = spirv.KHR.SubgroupReadInvocation %f, %i : f32, i32
    %5 = spirv.KHR.GroupNonUniformQuadAll %p : i1
    %6 = spirv.KHR.GroupNonUniformQuadAny %p : i1
    %7 = spirv.NV.GroupNonUniformPartition %f : f32 -> vector<4xi32>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @subgroup
  spirv.ExecutionMode @subgroup "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @subgroup() "None" {
// CHECK-NEXT:       %p = spirv.Constant true
// CHECK-NEXT:       %i = spirv.Constant 3 : i32
// CHECK-NEXT:       %f = spirv.Constant 1.000000e+00 : f32
// CHECK-NEXT:       %0 = spirv.KHR.SubgroupAll %p : i1
// CHECK-NEXT:       %1 = spirv.KHR.SubgroupAny %p : i1
// CHECK-NEXT:       %2 = spirv.KHR.SubgroupAllEqual %p : i1
// CHECK-NEXT:       %3 = spirv.KHR.SubgroupFirstInvocation %f : f32
// CHECK-NEXT:       %4 = spirv.KHR.SubgroupReadInvocation %f, %i : f32, i32
// CHECK-NEXT:       %5 = spirv.KHR.GroupNonUniformQuadAll %p : i1
// CHECK-NEXT:       %6 = spirv.KHR.GroupNonUniformQuadAny %p : i1
// CHECK-NEXT:       %7 = spirv.NV.GroupNonUniformPartition %f : f32 -> vector<4xi32>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @subgroup
// CHECK-NEXT:     spirv.ExecutionMode @subgroup "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }
