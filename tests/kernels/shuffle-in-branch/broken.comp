#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// Differences between neighbours, where the number is negative.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Input { int x[]; };
layout(std430, binding = 1) writeonly buffer Output { int y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    int value = x[i];
    if ((value & 1) != 0) {
        int neighbour = subgroupShuffleXor(value, 1);
        y[i] = value - neighbour;
    }
}
