#version 450
// Shifts a row by one place.
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { uint n; };
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Output { float y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n)
        y[i] = x[(i + 1) % n];
}
