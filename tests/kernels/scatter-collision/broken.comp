#version 450
#extension GL_EXT_shader_atomic_float : require
// Adds each token's gradient to its word's row of 4 numbers.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Tokens { uint tokens[]; };
layout(std430, binding = 1) readonly buffer Gradients { float gradients[]; };
layout(std430, binding = 2) buffer Table { float table[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint word = tokens[i / 4] * 4 + i % 4;
    table[word] += gradients[i];
}
