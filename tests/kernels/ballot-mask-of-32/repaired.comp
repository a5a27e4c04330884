#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
// The rank of each even number among those of its subgroup, itself included.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Input { uint x[]; };
layout(std430, binding = 1) writeonly buffer Ranks { uint ranks[]; };

void main() {
    uint i = gl_GlobalInvocationID.x, lane = gl_SubgroupInvocationID;
    uint even = subgroupBallot((x[i] & 1u) == 0).x;
    uint below = 0xffffffffu >> (31 - lane);
    ranks[i] = bitCount(even & below);
}
