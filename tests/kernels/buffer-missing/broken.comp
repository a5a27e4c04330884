#version 450
// y = x * gamma, gamma by channel
layout(local_size_x = 32) in;
layout(std430, binding = 0) buffer Values { float x[]; };
layout(std430, set = 1, binding = 3) readonly buffer Gamma { float gamma[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    x[i] *= gamma[gl_LocalInvocationID.x];
}
