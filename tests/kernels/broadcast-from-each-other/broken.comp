#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
// Gathers within blocks of 32.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Indices { uint indices[]; };
layout(std430, binding = 1) buffer Values { float values[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    values[i] = subgroupBroadcast(values[i], indices[i]);
}
