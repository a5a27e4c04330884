#version 450
// Compacts the multiples of 3; where each goes depends on who is first.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Input { uint x[]; };
layout(std430, binding = 1) writeonly buffer Output { uint y[]; };
layout(std430, binding = 2) buffer Counter { uint count; };

void main() {
    uint value = x[gl_GlobalInvocationID.x];
    if (value % 3 == 0)
        y[atomicAdd(count, 1)] = value;
}
