#version 450
#extension GL_KHR_shader_subgroup_basic : require
// Reverses each subgroup's numbers.
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Values { uint values[]; };

shared uint stage[64];

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint base = gl_SubgroupID * gl_SubgroupSize;
    stage[base + gl_SubgroupInvocationID] = values[i];
    subgroupBarrier();
    values[i] = stage[base + gl_SubgroupSize - 1 - gl_SubgroupInvocationID];
}
