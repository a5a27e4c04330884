#version 450
// One Jacobi step of the heat equation on a rod.
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { uint n; };
layout(std430, binding = 0) buffer Rod { float rod[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i == 0 || i + 1 >= n)
        return;
    rod[i] = 0.5 * (rod[i - 1] + rod[i + 1]);
}
