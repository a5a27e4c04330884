// RUN: XDSL_ROUNDTRIP
// Atomic reads, writes and updates.

spirv.module Logical GLSL450 {
  spirv.func @atomic(%p: !spirv.ptr<i32, StorageBuffer>, %i: i32, %pf: !spirv.ptr<f32, StorageBuffer>, %f: f32) "None" {
    // CHECK-LABEL: spirv.func @atomic
    %0 = spirv.AtomicIAdd <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %0 = spirv.AtomicIAdd <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    %1 = spirv.AtomicISub <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %1 = spirv.AtomicISub <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    %2 = spirv.AtomicSMin <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %2 = spirv.AtomicSMin <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    %3 = spirv.AtomicUMin <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %3 = spirv.AtomicUMin <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    %4 = spirv.AtomicSMax <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %4 = spirv.AtomicSMax <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    %5 = spirv.AtomicUMax <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %5 = spirv.AtomicUMax <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    %6 = spirv.AtomicAnd <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %6 = spirv.AtomicAnd <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    %7 = spirv.AtomicOr <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %7 = spirv.AtomicOr <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    %8 = spirv.AtomicXor <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %8 = spirv.AtomicXor <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    %9 = spirv.AtomicExchange <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %9 = spirv.AtomicExchange <Device> <AcquireRelease|UniformMemory> %p, %i : !spirv.ptr<i32, StorageBuffer>
    %10 = spirv.AtomicIIncrement <Workgroup> <None> %p : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %10 = spirv.AtomicIIncrement <Workgroup> <None> %p : !spirv.ptr<i32, StorageBuffer>
    %11 = spirv.AtomicIDecrement <Workgroup> <None> %p : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %11 = spirv.AtomicIDecrement <Workgroup> <None> %p : !spirv.ptr<i32, StorageBuffer>
    %12 = spirv.AtomicCompareExchange <Workgroup> <AcquireRelease> <Acquire> %p, %i, %i : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %12 = spirv.AtomicCompareExchange <Workgroup> <AcquireRelease> <Acquire> %p, %i, %i : !spirv.ptr<i32, StorageBuffer>
    %13 = spirv.AtomicCompareExchangeWeak <Workgroup> <AcquireRelease> <Acquire> %p, %i, %i : !spirv.ptr<i32, StorageBuffer>
    // CHECK-NEXT: %13 = spirv.AtomicCompareExchangeWeak <Workgroup> <AcquireRelease> <Acquire> %p, %i, %i : !spirv.ptr<i32, StorageBuffer>
    %14 = spirv.EXT.AtomicFAdd <Device> <None> %pf, %f : !spirv.ptr<f32, StorageBuffer>
    // CHECK-NEXT: %14 = spirv.EXT.AtomicFAdd <Device> <None> %pf, %f : !spirv.ptr<f32, StorageBuffer>
    spirv.Return
  }
}

// -----

// EXTENSION: not in MLIR's dialect.

spirv.module Logical GLSL450 {
  spirv.func @atomic_extensions(%pf: !spirv.ptr<f32, StorageBuffer>, %f: f32) "None" {
    // CHECK-LABEL: spirv.func @atomic_extensions
    %0 = spirv.AtomicLoad <Device> <Acquire> %pf : !spirv.ptr<f32, StorageBuffer>
    // CHECK-NEXT: %0 = spirv.AtomicLoad <Device> <Acquire> %pf : !spirv.ptr<f32, StorageBuffer>
    spirv.AtomicStore <Device> <Release> %pf, %f : !spirv.ptr<f32, StorageBuffer>
    // CHECK-NEXT: spirv.AtomicStore <Device> <Release> %pf, %f : !spirv.ptr<f32, StorageBuffer>
    %1 = spirv.EXT.AtomicFMin <Device> <None> %pf, %f : !spirv.ptr<f32, StorageBuffer>
    // CHECK-NEXT: %1 = spirv.EXT.AtomicFMin <Device> <None> %pf, %f : !spirv.ptr<f32, StorageBuffer>
    %2 = spirv.EXT.AtomicFMax <Device> <None> %pf, %f : !spirv.ptr<f32, StorageBuffer>
    // CHECK-NEXT: %2 = spirv.EXT.AtomicFMax <Device> <None> %pf, %f : !spirv.ptr<f32, StorageBuffer>
    spirv.Return
  }
}
