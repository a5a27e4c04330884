// RUN: XDSL_ROUNDTRIP
// RUN: XDSL_GENERIC_ROUNDTRIP

// EXTENSION: integer dot products beyond MLIR: signed by unsigned vectors; results narrower than the whole vector.
spirv.func @f(%s: vector<4xsi8>, %u: vector<4xui8>, %v: vector<4xi8>, %w: vector<4xi16>, %i: i32, %j: si32) "None" {
  %r0 = spirv.SUDot %s, %u : vector<4xsi8>, vector<4xui8> -> i32
  // CHECK: spirv.SUDot %{{.*}}, %{{.*}} : vector<4xsi8>, vector<4xui8> -> i32
  // CHECK-GENERIC: "spirv.SUDot"(%{{.*}}, %{{.*}}) : (vector<4xsi8>, vector<4xui8>) -> i32
  %r1 = spirv.SUDot %j, %i, <PackedVectorFormat4x8Bit> : si32, i32 -> i32
  // CHECK: spirv.SUDot %{{.*}}, %{{.*}}, <PackedVectorFormat4x8Bit> : si32, i32 -> i32
  %r2 = spirv.SUDotAccSat %s, %u, %i : vector<4xsi8>, vector<4xui8> -> i32
  // CHECK: spirv.SUDotAccSat %{{.*}}, %{{.*}}, %{{.*}} : vector<4xsi8>, vector<4xui8> -> i32
  %r3 = spirv.SDot %v, %v : vector<4xi8> -> i8
  // CHECK: spirv.SDot %{{.*}}, %{{.*}} : vector<4xi8> -> i8
  %r4 = spirv.UDot %v, %v : vector<4xi8> -> i16
  // CHECK: spirv.UDot %{{.*}}, %{{.*}} : vector<4xi8> -> i16
  %r5 = spirv.SDot %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i8
  // CHECK: spirv.SDot %{{.*}}, %{{.*}}, <PackedVectorFormat4x8Bit> : i32 -> i8
  %r6 = spirv.UDot %w, %w : vector<4xi16> -> i32
  // CHECK: spirv.UDot %{{.*}}, %{{.*}} : vector<4xi16> -> i32
  spirv.Return
}
