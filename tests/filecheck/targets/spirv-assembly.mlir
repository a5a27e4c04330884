// RUN: xdsl-opt %s -t 'spirv-assembly{names=true}' | filecheck %s
// RUN: xdsl-opt %s -t 'spirv-assembly{raw_ids=true}' | filecheck %s --check-prefix=RAW

spirv.module Logical GLSL450 requires #spirv.vce<v1.5, [Shader], []> {
  spirv.func @main() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}

// CHECK:      ; SPIR-V
// CHECK-NEXT: ; Version: 1.5
// CHECK:      OpCapability Shader
// CHECK-NEXT: OpMemoryModel Logical GLSL450
// CHECK-NEXT: OpEntryPoint GLCompute %main "main"
// CHECK-NEXT: OpExecutionMode %main LocalSize 32 1 1
// CHECK:      %void = OpTypeVoid
// CHECK:      %main = OpFunction %void None
// CHECK-NEXT: OpLabel
// CHECK-NEXT: OpReturn
// CHECK-NEXT: OpFunctionEnd

// RAW:     OpExecutionMode %[[MAIN:\d+]] LocalSize 32 1 1
// RAW-NOT: OpName
// RAW:     %[[VOID:\d+]] = OpTypeVoid
// RAW:     %[[MAIN]] = OpFunction %[[VOID]] None
