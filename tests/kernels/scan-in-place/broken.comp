#version 450
// Inclusive prefix sum of each block of 128 numbers.
layout(local_size_x = 128) in;
layout(std430, binding = 0) buffer Values { uint values[]; };

shared uint scan[128];

void main() {
    uint lane = gl_LocalInvocationID.x;
    scan[lane] = values[gl_GlobalInvocationID.x];
    barrier();
    for (uint step = 1; step < 128; step <<= 1) {
        uint other = lane >= step ? scan[lane - step] : 0u;
        scan[lane] += other;
        barrier();
    }
    values[gl_GlobalInvocationID.x] = scan[lane];
}
