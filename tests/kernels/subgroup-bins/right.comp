#version 450
#extension GL_KHR_shader_subgroup_basic : require
// A histogram of 16 bins for each subgroup, then their sum.
layout(local_size_x = 128) in;
layout(std430, binding = 0) readonly buffer Input { uint x[]; };
layout(std430, binding = 1) buffer Histogram { uint histogram[16]; };

shared uint bins[128][16];

void main() {
    for (uint i = gl_SubgroupInvocationID; i < 16; i += gl_SubgroupSize)
        bins[gl_SubgroupID][i] = 0;
    subgroupBarrier();
    atomicAdd(bins[gl_SubgroupID][x[gl_GlobalInvocationID.x] & 15u], 1);
    barrier();
    if (gl_LocalInvocationID.x < 16)
        for (uint i = 0; i < gl_NumSubgroups; ++i)
            atomicAdd(histogram[gl_LocalInvocationID.x], bins[i][gl_LocalInvocationID.x]);
}
