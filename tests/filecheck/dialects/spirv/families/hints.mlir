// RUN: XDSL_ROUNDTRIP

spirv.module Logical Vulkan {
  spirv.func @assume() "None" {
    %0 = spirv.Constant true
    spirv.KHR.AssumeTrue %0
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @assume
  spirv.ExecutionMode @assume "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @assume() "None" {
// CHECK-NEXT:       %0 = spirv.Constant true
// CHECK-NEXT:       spirv.KHR.AssumeTrue %0
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @assume
// CHECK-NEXT:     spirv.ExecutionMode @assume "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: expectations, the clock.
spirv.module Logical Vulkan {
  spirv.func @expect() "None" {
    %0 = spirv.Constant 4 : i32
    %1 = spirv.Constant dense<true> : vector<2xi1>
    spirv.Nop
    %2 = spirv.KHR.Expect %0, %0 : i32
    %3 = spirv.KHR.Expect %1, %1 : vector<2xi1>
    %4 = spirv.KHR.ReadClock <Subgroup> : i64
    %5 = spirv.KHR.ReadClock <Device> : vector<2xi32>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @expect
  spirv.ExecutionMode @expect "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @expect() "None" {
// CHECK-NEXT:       %0 = spirv.Constant 4 : i32
// CHECK-NEXT:       %1 = spirv.Constant dense<true> : vector<2xi1>
// CHECK-NEXT:       spirv.Nop
// CHECK-NEXT:       %2 = spirv.KHR.Expect %0, %0 : i32
// CHECK-NEXT:       %3 = spirv.KHR.Expect %1, %1 : vector<2xi1>
// CHECK-NEXT:       %4 = spirv.KHR.ReadClock <Subgroup> : i64
// CHECK-NEXT:       %5 = spirv.KHR.ReadClock <Device> : vector<2xi32>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @expect
// CHECK-NEXT:     spirv.ExecutionMode @expect "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: what a validator of 2026 knows.
// SINCE: SPIRV-Tools 2026.2
spirv.module Logical Vulkan {
  spirv.func @newest() "None" {
    %2 = spirv.Constant 1.0 : f32
    %3 = spirv.KHR.Poison : f32
    %4 = spirv.KHR.Freeze %3 : f32
    %5 = spirv.KHR.Fma %2, %2, %4 : f32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @newest
  spirv.ExecutionMode @newest "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @newest() "None" {
// CHECK-NEXT:       %0 = spirv.Constant 1.000000e+00 : f32
// CHECK-NEXT:       %1 = spirv.KHR.Poison : f32
// CHECK-NEXT:       %2 = spirv.KHR.Freeze %1 : f32
// CHECK-NEXT:       %3 = spirv.KHR.Fma %0, %0, %2 : f32
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @newest
// CHECK-NEXT:     spirv.ExecutionMode @newest "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: the end of everything.
// SINCE: SPIRV-Tools 2026.2
spirv.module Logical Vulkan {
  spirv.func @stop() "None" {
    %0 = spirv.Constant 32 : i32
    spirv.KHR.Abort %0 : i32
  }
  spirv.EntryPoint "GLCompute" @stop
  spirv.ExecutionMode @stop "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @stop() "None" {
// CHECK-NEXT:       %0 = spirv.Constant 32 : i32
// CHECK-NEXT:       spirv.KHR.Abort %0 : i32
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @stop
// CHECK-NEXT:     spirv.ExecutionMode @stop "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: a fence of arithmetic, in a kernel.
spirv.module Physical64 OpenCL {
  spirv.func @fence(%x: f32, %v: vector<4xf32>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "fence", linkage_type = <Export>>} {
    %0 = spirv.EXT.ArithmeticFence %x : f32
    %1 = spirv.EXT.ArithmeticFence %v : vector<4xf32>
    spirv.Return
  }
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Physical64 OpenCL {
// CHECK-NEXT:     spirv.func @fence(%x: f32, %v: vector<4xf32>) "None" attributes {linkage_attributes = #spirv.linkage_attributes<linkage_name = "fence", linkage_type = <Export>>} {
// CHECK-NEXT:       %0 = spirv.EXT.ArithmeticFence %x : f32
// CHECK-NEXT:       %1 = spirv.EXT.ArithmeticFence %v : vector<4xf32>
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// -----

// EXTENSION: small floats out of packed bytes.
// SINCE: SPIRV-Tools 2026.2
spirv.module Logical Vulkan {
  spirv.func @bits() "None" {
    %v = spirv.Constant dense<33> : vector<4xi8>
    %s = spirv.Constant 6 : i32
    %at = spirv.Constant 4 : i32
    %0 = spirv.EXT.BitcastExtract %v[%at] : vector<4xi8>, i32 -> vector<4xf4E2M1FN>
    %1 = spirv.EXT.BitcastExtract %s[%at] : i32, i32 -> f6E3M2FN
    %2 = spirv.EXT.BitcastExtract %s[%at] : i32, i32 -> f6E2M3FN
    %3 = spirv.Undef : f8E8M0FNU
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @bits
  spirv.ExecutionMode @bits "LocalSize", 32, 1, 1
}

// CHECK:      builtin.module {
// CHECK-NEXT:   spirv.module Logical Vulkan {
// CHECK-NEXT:     spirv.func @bits() "None" {
// CHECK-NEXT:       %v = spirv.Constant dense<33> : vector<4xi8>
// CHECK-NEXT:       %s = spirv.Constant 6 : i32
// CHECK-NEXT:       %at = spirv.Constant 4 : i32
// CHECK-NEXT:       %0 = spirv.EXT.BitcastExtract %v[%at] : vector<4xi8>, i32 -> vector<4xf4E2M1FN>
// CHECK-NEXT:       %1 = spirv.EXT.BitcastExtract %s[%at] : i32, i32 -> f6E3M2FN
// CHECK-NEXT:       %2 = spirv.EXT.BitcastExtract %s[%at] : i32, i32 -> f6E2M3FN
// CHECK-NEXT:       %3 = spirv.Undef : f8E8M0FNU
// CHECK-NEXT:       spirv.Return
// CHECK-NEXT:     }
// CHECK-NEXT:     spirv.EntryPoint "GLCompute" @bits
// CHECK-NEXT:     spirv.ExecutionMode @bits "LocalSize", 32, 1, 1
// CHECK-NEXT:   }
// CHECK-NEXT: }
