#version 450
// Reverses each block of 64 halves, which lie two in a word.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { uint x[]; };
layout(std430, binding = 1) buffer Output { uint y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint j = gl_WorkGroupID.x * 64 + 63 - gl_LocalInvocationID.x;
    vec2 from = unpackHalf2x16(x[i / 2]);
    vec2 to = unpackHalf2x16(y[j / 2]);
    to[j % 2] = from[i % 2];
    y[j / 2] = packHalf2x16(to);
}
