// RUN: xdsl-opt %s --verify-diagnostics --parsing-diagnostics --split-input-file | filecheck %s
// ROT-04: the Execution scope is Workgroup or Subgroup.

%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i32 -> f32
// CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %v, %d : f32, i32 -> f32
// CHECK-NOT: ROT-04:
// CHECK: {{^//}} -----

// -----

%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Workgroup> %v, %d : f32, i32 -> f32
// CHECK: spirv.GroupNonUniformRotateKHR <Workgroup> %v, %d : f32, i32 -> f32
// CHECK-NOT: ROT-04:
// CHECK: {{^//}} -----

// -----

%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Device> %v, %d : f32, i32 -> f32
// CHECK: ROT-04: the Execution scope must be Workgroup or Subgroup, not Device; use <Subgroup>

// -----

%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <Invocation> %v, %d : f32, i32 -> f32
// CHECK: ROT-04: the Execution scope must be Workgroup or Subgroup, not Invocation; use <Subgroup>

// -----

%v, %d = "test.op"() : () -> (f32, i32)
%0 = spirv.GroupNonUniformRotateKHR <CrossDevice> %v, %d : f32, i32 -> f32
// CHECK: ROT-04: the Execution scope must be Workgroup or Subgroup, not CrossDevice; use <Subgroup>
