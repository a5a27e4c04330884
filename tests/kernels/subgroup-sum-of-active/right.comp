#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
// Sum of the positive numbers, one atomic a subgroup.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { int x[]; };
layout(std430, binding = 1) buffer Result { int sum; };

void main() {
    int value = x[gl_GlobalInvocationID.x];
    if (value > 0) {
        int part = subgroupAdd(value);
        if (subgroupElect())
            atomicAdd(sum, part);
    }
}
