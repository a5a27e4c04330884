// RUN: XDSL_ROUNDTRIP

// OpenCL.std with MLIR's syntax.
spirv.module Physical64 OpenCL {
  spirv.func @cl(%f: f32, %v: vector<4xi32>, %h: vector<4xf16>, %s: !spirv.ptr<i8, UniformConstant>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "cl", linkage_type = <Export>>} {
    %0 = spirv.CL.acos %f : f32
    %1 = spirv.CL.acosh %f : f32
    %2 = spirv.CL.asin %f : f32
    %3 = spirv.CL.asinh %f : f32
    %4 = spirv.CL.atan %f : f32
    %5 = spirv.CL.atanh %f : f32
    %6 = spirv.CL.ceil %f : f32
    %7 = spirv.CL.cos %f : f32
    %8 = spirv.CL.cosh %f : f32
    %9 = spirv.CL.erf %f : f32
    %10 = spirv.CL.exp %f : f32
    %11 = spirv.CL.fabs %f : f32
    %12 = spirv.CL.floor %f : f32
    %13 = spirv.CL.log %f : f32
    %14 = spirv.CL.rint %f : f32
    %15 = spirv.CL.round %f : f32
    %16 = spirv.CL.rsqrt %f : f32
    %17 = spirv.CL.sin %f : f32
    %18 = spirv.CL.sinh %f : f32
    %19 = spirv.CL.sqrt %f : f32
    %20 = spirv.CL.tan %f : f32
    %21 = spirv.CL.tanh %f : f32
    %22 = spirv.CL.exp %h : vector<4xf16>
    %23 = spirv.CL.s_abs %v : vector<4xi32>
    %24 = spirv.CL.atan2 %f, %f : f32
    %25 = spirv.CL.fmax %f, %f : f32
    %26 = spirv.CL.fmin %f, %f : f32
    %27 = spirv.CL.pow %f, %f : f32
    %28 = spirv.CL.s_max %v, %v : vector<4xi32>
    %29 = spirv.CL.s_min %v, %v : vector<4xi32>
    %30 = spirv.CL.u_max %v, %v : vector<4xi32>
    %31 = spirv.CL.u_min %v, %v : vector<4xi32>
    %32 = spirv.CL.fma %f, %f, %f : f32
    %33 = spirv.CL.mix %f, %f, %f : f32
    %34 = spirv.CL.printf %s : !spirv.ptr<i8, UniformConstant> -> i32
    %35 = spirv.CL.printf %s %f, %f : !spirv.ptr<i8, UniformConstant>, f32, f32 -> i32
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Physical64 OpenCL {
// CHECK-NEXT:     spirv.func @cl(%f: f32, %v: vector<4xi32>, %h: vector<4xf16>, %s: !spirv.ptr<i8, UniformConstant>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "cl", linkage_type = <Export>>} {
// CHECK-NEXT:       %0 = spirv.CL.acos %f : f32
// CHECK-NEXT:       %1 = spirv.CL.acosh %f : f32
// CHECK-NEXT:       %2 = spirv.CL.asin %f : f32
// CHECK-NEXT:       %3 = spirv.CL.asinh %f : f32
// CHECK-NEXT:       %4 = spirv.CL.atan %f : f32
// CHECK-NEXT:       %5 = spirv.CL.atanh %f : f32
// CHECK-NEXT:       %6 = spirv.CL.ceil %f : f32
// CHECK-NEXT:       %7 = spirv.CL.cos %f : f32
// CHECK-NEXT:       %8 = spirv.CL.cosh %f : f32
// CHECK-NEXT:       %9 = spirv.CL.erf %f : f32
// CHECK-NEXT:       %10 = spirv.CL.exp %f : f32
// CHECK-NEXT:       %11 = spirv.CL.fabs %f : f32
// CHECK-NEXT:       %12 = spirv.CL.floor %f : f32
// CHECK-NEXT:       %13 = spirv.CL.log %f : f32
// CHECK-NEXT:       %14 = spirv.CL.rint %f : f32
// CHECK-NEXT:       %15 = spirv.CL.round %f : f32
// CHECK-NEXT:       %16 = spirv.CL.rsqrt %f : f32
// CHECK-NEXT:       %17 = spirv.CL.sin %f : f32
// CHECK-NEXT:       %18 = spirv.CL.sinh %f : f32
// CHECK-NEXT:       %19 = spirv.CL.sqrt %f : f32
// CHECK-NEXT:       %20 = spirv.CL.tan %f : f32
// CHECK-NEXT:       %21 = spirv.CL.tanh %f : f32
// CHECK-NEXT:       %22 = spirv.CL.exp %h : vector<4xf16>
// CHECK-NEXT:       %23 = spirv.CL.s_abs %v : vector<4xi32>
// CHECK-NEXT:       %24 = spirv.CL.atan2 %f, %f : f32
// CHECK-NEXT:       %25 = spirv.CL.fmax %f, %f : f32
// CHECK-NEXT:       %26 = spirv.CL.fmin %f, %f : f32
// CHECK-NEXT:       %27 = spirv.CL.pow %f, %f : f32
// CHECK-NEXT:       %28 = spirv.CL.s_max %v, %v : vector<4xi32>
// CHECK-NEXT:       %29 = spirv.CL.s_min %v, %v : vector<4xi32>
// CHECK-NEXT:       %30 = spirv.CL.u_max %v, %v : vector<4xi32>
// CHECK-NEXT:       %31 = spirv.CL.u_min %v, %v : vector<4xi32>
// CHECK-NEXT:       %32 = spirv.CL.fma %f, %f, %f : f32
// CHECK-NEXT:       %33 = spirv.CL.mix %f, %f, %f : f32
// CHECK-NEXT:       %34 = spirv.CL.printf %s : !spirv.ptr<i8, UniformConstant> -> i32
// CHECK-NEXT:       %35 = spirv.CL.printf %s %f, %f : !spirv.ptr<i8, UniformConstant>, f32, f32 -> i32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }
