// RUN: not xdsl-opt %s -p 'spirv-cooperative-matrix-to-invocations{subgroup-size=8}' 2>&1 | filecheck %s
// RUN: xdsl-opt %s -p 'spirv-cooperative-matrix-to-invocations{subgroup-size=8 assume-uniform=true}' | filecheck %s --check-prefix=ASSUMED
// RUN: xdsl-opt %s -p 'spirv-cooperative-matrix-to-invocations{subgroup-size=8 subgroups=device}' | filecheck %s --check-prefix=DEVICE

// Only one of eight subgroups multiplies, so the code may have a barrier of the subgroup, but not of the workgroup.

// CHECK: 'spirv.KHR.CooperativeMatrixMulAdd' (%r) in @main: virtual subgroups need all invocations of the workgroup to execute the operation together, which is not proven: set assume-uniform if they do, or subgroups=device on a device with subgroups of 8 invocations

// ASSUMED-NOT: SubgroupId
// ASSUMED: spirv.ControlBarrier <Workgroup>, <Workgroup>
// DEVICE: built_in("SubgroupId")
// DEVICE: spirv.ControlBarrier <Subgroup>, <Subgroup>, <AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>

spirv.module Logical Vulkan {
  spirv.GlobalVariable @id built_in("SubgroupId") : !spirv.ptr<i32, Input>
  spirv.func @main() "None" {
    %zero = spirv.Constant 0 : i32
    %p = spirv.mlir.addressof @id : !spirv.ptr<i32, Input>
    %id = spirv.Load "Input" %p : i32
    %x = spirv.ConstantNull : !spirv.coopmatrix<8x8xi8, Subgroup, MatrixA>
    %y = spirv.ConstantNull : !spirv.coopmatrix<8x8xi8, Subgroup, MatrixB>
    %c = spirv.Constant dense<1> : !spirv.coopmatrix<8x8xi32, Subgroup, MatrixAcc>
    %first = spirv.IEqual %id, %zero : i32
    spirv.mlir.selection {
      spirv.BranchConditional %first, ^then, ^merge
    ^then:
      %r = spirv.KHR.CooperativeMatrixMulAdd %x, %y, %c, <ASigned> : !spirv.coopmatrix<8x8xi8, Subgroup, MatrixA>, !spirv.coopmatrix<8x8xi8, Subgroup, MatrixB> -> !spirv.coopmatrix<8x8xi32, Subgroup, MatrixAcc>
      spirv.Branch ^merge
    ^merge:
      spirv.mlir.merge
    }
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @id
  spirv.ExecutionMode @main "LocalSize", 64, 1, 1
}
