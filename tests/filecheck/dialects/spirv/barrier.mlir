// RUN: XDSL_ROUNDTRIP
// Control and memory barriers.

spirv.module Logical GLSL450 {
  spirv.func @barrier() "None" {
    // CHECK-LABEL: spirv.func @barrier
    spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>
    // CHECK-NEXT: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>
    spirv.MemoryBarrier <Device>, <AcquireRelease|UniformMemory>
    // CHECK-NEXT: spirv.MemoryBarrier <Device>, <AcquireRelease|UniformMemory>
    spirv.Return
  }
}
