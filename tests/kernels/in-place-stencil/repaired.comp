#version 450
// One Jacobi step of the heat equation on a rod.
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { uint n; };
layout(std430, binding = 0) readonly buffer Before { float before[]; };
layout(std430, binding = 1) writeonly buffer After { float after[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i == 0 || i + 1 >= n)
        return;
    after[i] = 0.5 * (before[i - 1] + before[i + 1]);
}
