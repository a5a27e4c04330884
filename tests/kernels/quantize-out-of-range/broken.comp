#version 450
// Quantizes to 8 bits with a zero point.
layout(local_size_x = 32) in;
layout(push_constant) uniform Parameters { float scale; float zero; };
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Output { uint y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    float q = round(x[i] / scale) + zero;
    y[i] = min(uint(q), 255u);
}
