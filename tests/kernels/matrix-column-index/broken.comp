#version 450
// Applies the column of a 4 x 4 matrix that each head selects.
layout(local_size_x = 8) in;
layout(std430, binding = 0) readonly buffer Matrices { mat4 matrices[]; };
layout(std430, binding = 1) readonly buffer Heads { uint heads[]; };
layout(std430, binding = 2) writeonly buffer Output { vec4 y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    mat4 m = matrices[i];
    y[i] = m[heads[i]];
}
