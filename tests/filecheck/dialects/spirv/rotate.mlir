// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP
// RUN: MLIR_ROUNDTRIP
// RUN: MLIR_GENERIC_ROUNDTRIP
// REQUIRES: mlir-opt

// SPV_KHR_subgroup_rotate with MLIR's syntax. ROT-10: GLSL's subgroupRotate and subgroupClusteredRotate
// take integers of 8, 16, 32 and 64 bits, floats of 16, 32 and 64 bits, and Booleans.
spirv.func @f(%d: i32, %e: ui32, %v0: i8, %v1: i16, %v2: i32, %v3: i64, %v4: ui8, %v5: si32, %v6: f16, %v7: f32, %v8: f64, %v9: i1, %v10: vector<2xf32>, %v11: vector<4xi8>, %v12: vector<3xi1>) "None" {
  %n = spirv.Constant 4 : i32
  %r0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v0, %d : i8, i32 -> i8
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : i8, i32 -> i8
  %c0 = spirv.GroupNonUniformRotateKHR <Subgroup> %v0, %d, cluster_size(%n) : i8, i32, i32 -> i8
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : i8, i32, i32 -> i8
  %r1 = spirv.GroupNonUniformRotateKHR <Subgroup> %v1, %d : i16, i32 -> i16
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : i16, i32 -> i16
  %c1 = spirv.GroupNonUniformRotateKHR <Subgroup> %v1, %d, cluster_size(%n) : i16, i32, i32 -> i16
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : i16, i32, i32 -> i16
  %r2 = spirv.GroupNonUniformRotateKHR <Subgroup> %v2, %d : i32, i32 -> i32
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : i32, i32 -> i32
  %c2 = spirv.GroupNonUniformRotateKHR <Subgroup> %v2, %d, cluster_size(%n) : i32, i32, i32 -> i32
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : i32, i32, i32 -> i32
  %r3 = spirv.GroupNonUniformRotateKHR <Subgroup> %v3, %d : i64, i32 -> i64
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : i64, i32 -> i64
  %c3 = spirv.GroupNonUniformRotateKHR <Subgroup> %v3, %d, cluster_size(%n) : i64, i32, i32 -> i64
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : i64, i32, i32 -> i64
  %r4 = spirv.GroupNonUniformRotateKHR <Subgroup> %v4, %d : ui8, i32 -> ui8
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : ui8, i32 -> ui8
  %c4 = spirv.GroupNonUniformRotateKHR <Subgroup> %v4, %d, cluster_size(%n) : ui8, i32, i32 -> ui8
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : ui8, i32, i32 -> ui8
  %r5 = spirv.GroupNonUniformRotateKHR <Subgroup> %v5, %d : si32, i32 -> si32
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : si32, i32 -> si32
  %c5 = spirv.GroupNonUniformRotateKHR <Subgroup> %v5, %d, cluster_size(%n) : si32, i32, i32 -> si32
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : si32, i32, i32 -> si32
  %r6 = spirv.GroupNonUniformRotateKHR <Subgroup> %v6, %d : f16, i32 -> f16
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : f16, i32 -> f16
  %c6 = spirv.GroupNonUniformRotateKHR <Subgroup> %v6, %d, cluster_size(%n) : f16, i32, i32 -> f16
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : f16, i32, i32 -> f16
  %r7 = spirv.GroupNonUniformRotateKHR <Subgroup> %v7, %d : f32, i32 -> f32
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : f32, i32 -> f32
  %c7 = spirv.GroupNonUniformRotateKHR <Subgroup> %v7, %d, cluster_size(%n) : f32, i32, i32 -> f32
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : f32, i32, i32 -> f32
  %r8 = spirv.GroupNonUniformRotateKHR <Subgroup> %v8, %d : f64, i32 -> f64
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : f64, i32 -> f64
  %c8 = spirv.GroupNonUniformRotateKHR <Subgroup> %v8, %d, cluster_size(%n) : f64, i32, i32 -> f64
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : f64, i32, i32 -> f64
  %r9 = spirv.GroupNonUniformRotateKHR <Subgroup> %v9, %d : i1, i32 -> i1
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : i1, i32 -> i1
  %c9 = spirv.GroupNonUniformRotateKHR <Subgroup> %v9, %d, cluster_size(%n) : i1, i32, i32 -> i1
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : i1, i32, i32 -> i1
  %r10 = spirv.GroupNonUniformRotateKHR <Subgroup> %v10, %d : vector<2xf32>, i32 -> vector<2xf32>
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : vector<2xf32>, i32 -> vector<2xf32>
  %c10 = spirv.GroupNonUniformRotateKHR <Subgroup> %v10, %d, cluster_size(%n) : vector<2xf32>, i32, i32 -> vector<2xf32>
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : vector<2xf32>, i32, i32 -> vector<2xf32>
  %r11 = spirv.GroupNonUniformRotateKHR <Subgroup> %v11, %d : vector<4xi8>, i32 -> vector<4xi8>
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : vector<4xi8>, i32 -> vector<4xi8>
  %c11 = spirv.GroupNonUniformRotateKHR <Subgroup> %v11, %d, cluster_size(%n) : vector<4xi8>, i32, i32 -> vector<4xi8>
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : vector<4xi8>, i32, i32 -> vector<4xi8>
  %r12 = spirv.GroupNonUniformRotateKHR <Subgroup> %v12, %d : vector<3xi1>, i32 -> vector<3xi1>
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}} : vector<3xi1>, i32 -> vector<3xi1>
  %c12 = spirv.GroupNonUniformRotateKHR <Subgroup> %v12, %d, cluster_size(%n) : vector<3xi1>, i32, i32 -> vector<3xi1>
  // CHECK: spirv.GroupNonUniformRotateKHR <Subgroup> %{{.*}}, %{{.*}}, cluster_size(%{{.*}}) : vector<3xi1>, i32, i32 -> vector<3xi1>
  %w = spirv.GroupNonUniformRotateKHR <Workgroup> %v7, %e : f32, ui32 -> f32
  // CHECK: spirv.GroupNonUniformRotateKHR <Workgroup> %{{.*}}, %{{.*}} : f32, ui32 -> f32
  // CHECK-GENERIC: "spirv.GroupNonUniformRotateKHR"(%{{.*}}, %{{.*}}) <{execution_scope = #spirv.scope<Workgroup>}> : (f32, ui32) -> f32
  spirv.Return
}
