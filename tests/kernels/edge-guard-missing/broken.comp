#version 450
// y = a * x + y
layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters { uint n; float a; };
layout(std430, binding = 0) readonly buffer VectorX { float x[]; };
layout(std430, binding = 1) buffer VectorY { float y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
        y[i] = a * x[i] + y[i];
}
