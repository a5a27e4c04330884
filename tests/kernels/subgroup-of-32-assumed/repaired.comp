#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
// Sum of each block of 256 numbers: by subgroups, then over the subgroups' sums.
layout(local_size_x = 256) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Sums { float sums[]; };

shared float partial[256];

void main() {
    float sum = subgroupAdd(x[gl_GlobalInvocationID.x]);
    if (subgroupElect())
        partial[gl_SubgroupID] = sum;
    barrier();
    if (gl_LocalInvocationID.x == 0) {
        float total = 0.0;
        for (uint i = 0; i < gl_NumSubgroups; ++i)
            total += partial[i];
        sums[gl_WorkGroupID.x] = total;
    }
}
