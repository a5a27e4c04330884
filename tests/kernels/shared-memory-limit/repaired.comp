#version 450
// Transposes a square matrix of up to N x N in one workgroup.
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { uint n; };
layout(std430, binding = 0) buffer Matrix { float m[]; };

const uint N = 64;
shared float tile[N * (N + 1)];

void main() {
    for (uint i = gl_LocalInvocationID.x; i < n * n; i += 32)
        tile[i % n * (N + 1) + i / n] = m[i];
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < n * n; i += 32)
        m[i] = tile[i / n * (N + 1) + i % n];
}
