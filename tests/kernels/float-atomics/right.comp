#version 450
#extension GL_EXT_shader_atomic_float : require
// Sum of squares.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) buffer Result { float sum; };

shared float part;

void main() {
    if (gl_LocalInvocationID.x == 0)
        part = 0.0;
    barrier();
    float value = x[gl_GlobalInvocationID.x];
    atomicAdd(part, value * value);
    barrier();
    if (gl_LocalInvocationID.x == 0)
        atomicAdd(sum, part);
}
