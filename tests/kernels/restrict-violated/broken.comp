#version 450
// y += x
layout(local_size_x = 32) in;
layout(std430, binding = 0) restrict buffer VectorX { float x[]; };
layout(std430, binding = 1) restrict buffer VectorY { float y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    y[i] += x[i];
}
