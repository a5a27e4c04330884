// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// ROT-06: ClusterSize must come from a constant instruction; a known one is a power of two, at least 1.

%n = spirv.Constant 1 : i32
%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d, cluster_size(%n) : f32, i32, i32 -> f32
// CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d, cluster_size(%n) : f32, i32, i32 -> f32
// CHECK-NOT: ROT-06:
// CHECK: {{^//}} -----

// -----

%n = spirv.Constant 16 : i32
%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d, cluster_size(%n) : f32, i32, i32 -> f32
// CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d, cluster_size(%n) : f32, i32, i32 -> f32
// CHECK-NOT: ROT-06:
// CHECK: {{^//}} -----

// -----

spirv.SpecConstant @cluster spec_id(0) = 16 : i32
%n = spirv.mlir.referenceof @cluster : i32
%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d, cluster_size(%n) : f32, i32, i32 -> f32
// CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d, cluster_size(%n) : f32, i32, i32 -> f32
// CHECK-NOT: ROT-06:
// CHECK: {{^//}} -----

// -----

%n = spirv.Constant 12 : i32
%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d, cluster_size(%n) : f32, i32, i32 -> f32
// CHECK: ROT-06: ClusterSize must be a power of two, not 12; use 1, 2, 4, 8, ...

// -----

%n = spirv.Constant 0 : i32
%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d, cluster_size(%n) : f32, i32, i32 -> f32
// CHECK: ROT-06: ClusterSize must be a power of two, not 0

// -----

%v, %d, %n = "test.op"() : () -> (f32, i32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d, cluster_size(%n) : f32, i32, i32 -> f32
// CHECK: ROT-06: ClusterSize must come from a constant instruction; use spirv.Constant or spirv.mlir.referenceof
