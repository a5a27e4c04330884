#version 450
// Histogram of numbers modulo 16, one workgroup's bins in shared memory.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Values { uint values[]; };
layout(std430, binding = 1) writeonly buffer Histogram { uint histogram[]; };

shared uint bins[16];

void main() {
    uint lane = gl_LocalInvocationID.x;
    for (uint i = 0; i < 4; ++i)
        atomicAdd(bins[values[i * 32 + lane] & 15u], 1);
    barrier();
    if (lane < 16)
        histogram[lane] = bins[lane];
}
