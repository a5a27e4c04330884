#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
// How many numbers are even, how many odd?
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Values { uint values[]; };
layout(std430, binding = 1) buffer Counts { uint counts[2]; };

void main() {
    uint value = values[gl_GlobalInvocationID.x];
    atomicAdd(counts[value & 1u], 1u, gl_ScopeDevice, 0, 0);
}
