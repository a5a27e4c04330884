// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// ROT-05: Delta and ClusterSize are integer scalars of Signedness 0.

%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i32 -> f32
// CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i32 -> f32
// CHECK-NOT: ROT-05:
// CHECK: {{^//}} -----

// -----

%v, %d = "test.op"() : () -> (f32, ui32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, ui32 -> f32
// CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, ui32 -> f32
// CHECK-NOT: ROT-05:
// CHECK: {{^//}} -----

// -----

%v, %d = "test.op"() : () -> (f32, i64)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i64 -> f32
// CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i64 -> f32
// CHECK-NOT: ROT-05:
// CHECK: {{^//}} -----

// -----

%v, %d = "test.op"() : () -> (f32, si32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, si32 -> f32
// CHECK: ROT-05: Delta must be an integer scalar of Signedness 0, not si32; use a signless or unsigned integer

// -----

%v, %d = "test.op"() : () -> (f32, f32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, f32 -> f32
// CHECK: ROT-05: Delta must be an integer scalar of Signedness 0, not f32

// -----

%v, %d = "test.op"() : () -> (f32, vector<2xi32>)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, vector<2xi32> -> f32
// CHECK: ROT-05: Delta must be an integer scalar of Signedness 0, not vector<2xi32>

// -----

%v, %d = "test.op"() : () -> (f32, i1)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i1 -> f32
// CHECK: ROT-05: Delta must be an integer scalar of Signedness 0, not i1

// -----

%n = spirv.Constant 4 : si32
%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d, cluster_size(%n) : f32, i32, si32 -> f32
// CHECK: ROT-05: ClusterSize must be an integer scalar of Signedness 0, not si32
