// RUN: XDSL_ROUNDTRIP

// CHECK: spirv.GlobalVariable @image : !spirv.ptr<!spirv.image<f32, Dim2D, NoDepth, NonArrayed, SingleSampled, NoSampler, Rgba32f>, UniformConstant>
spirv.GlobalVariable @image :
    !spirv.ptr<!spirv.image<f32, Dim2D, NoDepth, NonArrayed, SingleSampled, NoSampler, Rgba32f>, UniformConstant>
// CHECK: spirv.GlobalVariable @sampled : !spirv.ptr<!spirv.sampled_image<!spirv.image<i32, Cube, DepthUnknown, Arrayed, MultiSampled, NeedSampler, Unknown>>, UniformConstant>
spirv.GlobalVariable @sampled :
    !spirv.ptr<!spirv.sampled_image<!spirv.image<i32, Cube, DepthUnknown, Arrayed, MultiSampled, NeedSampler, Unknown>>, UniformConstant>
// CHECK: spirv.GlobalVariable @texels : !spirv.ptr<!spirv.image<f32, Buffer, IsDepth, NonArrayed, SingleSampled, SamplerUnknown, Unknown>, UniformConstant>
spirv.GlobalVariable @texels :
    !spirv.ptr<!spirv.image<f32, Buffer, IsDepth, NonArrayed, SingleSampled, SamplerUnknown, Unknown>, UniformConstant>

// -----

// EXTENSION
// CHECK: spirv.GlobalVariable @sampler : !spirv.ptr<!spirv.sampler, UniformConstant>
spirv.GlobalVariable @sampler : !spirv.ptr<!spirv.sampler, UniformConstant>
