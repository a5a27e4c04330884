#version 450
// Sum of all numbers in one launch: the workgroup that finishes last adds the partial sums.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) coherent buffer Partials { float partials[]; };
layout(std430, binding = 2) coherent buffer Result { uint finished; float sum; };

shared float tile[32];
shared bool is_last;

float add_tile() {
    float s = 0.0;
    for (uint i = 0; i < 32; ++i)
        s += tile[i];
    return s;
}

void main() {
    uint lane = gl_LocalInvocationID.x;
    tile[lane] = x[gl_GlobalInvocationID.x];
    barrier();
    if (lane == 0) {
        partials[gl_WorkGroupID.x] = add_tile();
        is_last = atomicAdd(finished, 1) + 1 == gl_NumWorkGroups.x;
        if (is_last) {
            float total = 0.0;
            for (uint i = 0; i < gl_NumWorkGroups.x; ++i)
                total += partials[i];
            sum = total;
        }
    }
}
