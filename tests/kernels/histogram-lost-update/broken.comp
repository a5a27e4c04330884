#version 450
// Histogram of bytes' upper two bits: private to the workgroup first, then added to the result.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Values { uint values[]; };
layout(std430, binding = 1) buffer Histogram { uint histogram[4]; };

shared uint bins[4];

void main() {
    uint lane = gl_LocalInvocationID.x;
    if (lane < 4)
        bins[lane] = 0;
    barrier();
    uint bin = values[gl_GlobalInvocationID.x] >> 6;
    bins[bin]++;
    barrier();
    if (lane < 4)
        atomicAdd(histogram[lane], bins[lane]);
}
