// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP
// RUN: MLIR_ROUNDTRIP
// RUN: MLIR_GENERIC_ROUNDTRIP
// REQUIRES: mlir-opt

// SPV_KHR_integer_dot_product with MLIR's syntax.
spirv.func @f(%i: i32, %v: vector<4xi8>, %w: vector<2xi16>, %l: i64, %u: vector<4xui8>) "None" {
  %r0 = spirv.SDot %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i32
  // CHECK: spirv.SDot %{{.*}}, %{{.*}}, <PackedVectorFormat4x8Bit> : i32 -> i32
  // CHECK-GENERIC: "spirv.SDot"(%{{.*}}, %{{.*}}) <{format = #spirv.packed_vector_format<PackedVectorFormat4x8Bit>}> : (i32, i32) -> i32
  %r1 = spirv.UDot %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i32
  // CHECK: spirv.UDot %{{.*}}, %{{.*}}, <PackedVectorFormat4x8Bit> : i32 -> i32
  %r2 = spirv.SUDot %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i32
  // CHECK: spirv.SUDot %{{.*}}, %{{.*}}, <PackedVectorFormat4x8Bit> : i32 -> i32
  %r3 = spirv.SDot %v, %v : vector<4xi8> -> i32
  // CHECK: spirv.SDot %{{.*}}, %{{.*}} : vector<4xi8> -> i32
  // CHECK-GENERIC: "spirv.SDot"(%{{.*}}, %{{.*}}) : (vector<4xi8>, vector<4xi8>) -> i32
  %r4 = spirv.UDot %v, %v : vector<4xi8> -> i32
  // CHECK: spirv.UDot %{{.*}}, %{{.*}} : vector<4xi8> -> i32
  %r5 = spirv.SUDot %v, %v : vector<4xi8> -> i32
  // CHECK: spirv.SUDot %{{.*}}, %{{.*}} : vector<4xi8> -> i32
  %r6 = spirv.SDot %w, %w : vector<2xi16> -> i64
  // CHECK: spirv.SDot %{{.*}}, %{{.*}} : vector<2xi16> -> i64
  %r7 = spirv.UDot %u, %u : vector<4xui8> -> ui32
  // CHECK: spirv.UDot %{{.*}}, %{{.*}} : vector<4xui8> -> ui32
  %r8 = spirv.SDotAccSat %i, %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i32
  // CHECK: spirv.SDotAccSat %{{.*}}, %{{.*}}, %{{.*}}, <PackedVectorFormat4x8Bit> : i32 -> i32
  %r9 = spirv.UDotAccSat %i, %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i32
  // CHECK: spirv.UDotAccSat %{{.*}}, %{{.*}}, %{{.*}}, <PackedVectorFormat4x8Bit> : i32 -> i32
  %r10 = spirv.SUDotAccSat %i, %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i32
  // CHECK: spirv.SUDotAccSat %{{.*}}, %{{.*}}, %{{.*}}, <PackedVectorFormat4x8Bit> : i32 -> i32
  %r11 = spirv.SDotAccSat %v, %v, %l : vector<4xi8> -> i64
  // CHECK: spirv.SDotAccSat %{{.*}}, %{{.*}}, %{{.*}} : vector<4xi8> -> i64
  %r12 = spirv.UDotAccSat %v, %v, %l : vector<4xi8> -> i64
  // CHECK: spirv.UDotAccSat %{{.*}}, %{{.*}}, %{{.*}} : vector<4xi8> -> i64
  %r13 = spirv.SUDotAccSat %v, %v, %l : vector<4xi8> -> i64
  // CHECK: spirv.SUDotAccSat %{{.*}}, %{{.*}}, %{{.*}} : vector<4xi8> -> i64
  spirv.Return
}
