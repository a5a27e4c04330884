#version 450
// Sum of each block of 256 numbers: a tree in shared memory.
layout(local_size_x = 256) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Sums { float sums[]; };

shared float partial[256];

void main() {
    uint lane = gl_LocalInvocationID.x;
    partial[lane] = x[gl_GlobalInvocationID.x];
    barrier();
    for (uint stride = 128; stride > 0; stride >>= 1) {
        if (lane < stride)
            partial[lane] += partial[lane + stride];
        barrier();
    }
    if (lane == 0)
        sums[gl_WorkGroupID.x] = partial[0];
}
