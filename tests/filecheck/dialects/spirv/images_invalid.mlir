// RUN: xdsl-opt %s --split-input-file --parsing-diagnostics --verify-diagnostics | filecheck %s

spirv.GlobalVariable @f : !spirv.ptr<!spirv.image<f32, 4D, NoDepth, NonArrayed, SingleSampled, NoSampler, Unknown>, UniformConstant>
// CHECK: '4D' is not a Dim

// -----

spirv.GlobalVariable @f : !spirv.ptr<!spirv.sampled_image<f32>, UniformConstant>
// CHECK: a sampled image must have an image type, not f32
