#version 450
// Fixed-point ratios of two's-complement numbers.
layout(local_size_x = 8) in;
layout(std430, binding = 0) readonly buffer Numerators { int n[]; };
layout(std430, binding = 1) readonly buffer Denominators { int d[]; };
layout(std430, binding = 2) writeonly buffer Output { int q[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    q[i] = d[i] == -1 ? ~n[i] + 1 : n[i] / d[i];
}
