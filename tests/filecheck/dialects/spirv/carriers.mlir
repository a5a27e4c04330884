// RUN: XDSL_ROUNDTRIP
// EXTENSION

// CHECK-LABEL: spirv.module Logical GLSL450
spirv.module Logical GLSL450 {
  // CHECK-NEXT: spirv.RawGlobal @file "OpString"("add.comp")
  // CHECK-NEXT: spirv.RawGlobal "OpSource"(2, 460, @file)
  // CHECK-NEXT: spirv.SpecConstant @m spec_id(0) = 4 : i32
  // CHECK-NEXT: spirv.RawGlobal @size "OpSpecConstantOp"("OpIMul", @m, const(4 : i32)) : i32
  // CHECK-NEXT: spirv.RawGlobal @group "OpSpecConstantComposite"(@size, const(1 : i32), const(1 : i32)) {built_in = "WorkgroupSize"} : vector<3xi32>
  // CHECK-NEXT: spirv.RawGlobal @pair "OpConstantComposite"(const([1 : i32, 2.000000e+00 : f32] : !spirv.struct<(i32, f32)>)) : !spirv.array<1 x !spirv.struct<(i32, f32)>>
  // CHECK-NEXT: spirv.RawGlobal @debug "OpExtInst"(set("NonSemantic.Shader.DebugInfo.100"), 0) : none
  // CHECK-NEXT: spirv.RawGlobal "OpDecorate"(!spirv.ptr<f32, Function>, 19)
  spirv.RawGlobal @file "OpString"("add.comp")
  spirv.RawGlobal "OpSource"(2, 460, @file)
  spirv.SpecConstant @m spec_id(0) = 4 : i32
  spirv.RawGlobal @size "OpSpecConstantOp"("OpIMul", @m, const(4 : i32)) : i32
  spirv.RawGlobal @group "OpSpecConstantComposite"(@size, const(1 : i32), const(1 : i32)) {built_in = "WorkgroupSize"} : vector<3xi32>
  spirv.RawGlobal @pair "OpConstantComposite"(const([1 : i32, 2.0 : f32] : !spirv.struct<(i32, f32)>)) : !spirv.array<1 x !spirv.struct<(i32, f32)>>
  spirv.RawGlobal @debug "OpExtInst"(set("NonSemantic.Shader.DebugInfo.100"), 0) : none
  spirv.RawGlobal "OpDecorate"(!spirv.ptr<f32, Function>, 19)

  // CHECK: spirv.GlobalVariable @image bind(0, 0) : !spirv.ptr<!spirv.raw<"OpTypeImage"(f32, 1, 0, 0, 0, 2, 4)>, UniformConstant>
  spirv.GlobalVariable @image bind(0, 0) : !spirv.ptr<!spirv.raw<"OpTypeImage"(f32, 1, 0, 0, 0, 2, 4)>, UniformConstant>

  spirv.func @main(%x : i1, %at : vector<2xi32>) "None" {
    // CHECK:      %{{.*}} = spirv.Raw "OpImageRead"(%{{.*}}, %{{.*}}) {relaxed_precision} : (!spirv.raw<"OpTypeImage"(f32, 1, 0, 0, 0, 2, 4)>, vector<2xi32>) -> vector<4xf32>
    // CHECK-NEXT: spirv.Raw "OpMemoryNamedBarrier"(@size, @size, @m) : () -> ()
    // CHECK-NEXT: spirv.Decorate %{{.*}} {relaxed_precision} : i1
    %p = spirv.mlir.addressof @image : !spirv.ptr<!spirv.raw<"OpTypeImage"(f32, 1, 0, 0, 0, 2, 4)>, UniformConstant>
    %i = spirv.Load "UniformConstant" %p : !spirv.raw<"OpTypeImage"(f32, 1, 0, 0, 0, 2, 4)>
    %r = spirv.Raw "OpImageRead"(%i, %at) {relaxed_precision} : (!spirv.raw<"OpTypeImage"(f32, 1, 0, 0, 0, 2, 4)>, vector<2xi32>) -> vector<4xf32>
    spirv.Raw "OpMemoryNamedBarrier"(@size, @size, @m) : () -> ()
    spirv.Decorate %x {relaxed_precision} : i1

    // CHECK:      spirv.mlir.loop {
    // CHECK:        spirv.mlir.selection {
    // CHECK:          spirv.mlir.break 1
    // CHECK:          spirv.mlir.continue 1(%{{.*}} : i1)
    spirv.mlir.loop {
      spirv.Branch ^header
    ^header:
      spirv.Branch ^body
    ^body:
      spirv.mlir.selection {
        spirv.BranchConditional %x, ^then, ^else
      ^then:
        spirv.mlir.break 1
      ^else:
        spirv.mlir.continue 1 (%x : i1)
      ^merge:
        spirv.mlir.merge
      }
      // CHECK: spirv.RawTerminator "OpTerminateInvocation"() : () -> ()
      spirv.RawTerminator "OpTerminateInvocation"() : () -> ()
    ^continue(%c : i1):
      spirv.Branch ^header
    ^merge:
      spirv.mlir.merge
    }
    spirv.Return
  }
}
