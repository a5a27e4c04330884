#version 450
#extension GL_EXT_shader_16bit_storage : require
// Reverses each block of 64 halves, which lie two in a word.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { float16_t x[]; };
layout(std430, binding = 1) writeonly buffer Output { float16_t y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint j = gl_WorkGroupID.x * 64 + 63 - gl_LocalInvocationID.x;
    y[j] = x[i];
}
