#version 450
// y = clamp(x, low, high)
layout(local_size_x = 32) in;
layout(push_constant) uniform Parameters { float low; float high; };
layout(std430, binding = 0) buffer Values { float x[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    x[i] = clamp(x[i], low, high);
}
