#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
// Rotates each block of 128 numbers by 32 through scratch memory in a buffer.
layout(local_size_x = 128) in;
layout(std430, binding = 0) buffer Values { float values[]; };
layout(std430, binding = 1) workgroupcoherent buffer Scratch { float scratch[]; };

void main() {
    uint base = gl_WorkGroupID.x * 128, lane = gl_LocalInvocationID.x;
    scratch[base + lane] = values[base + lane];
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeSubgroup, gl_StorageSemanticsBuffer,
                   gl_SemanticsAcquireRelease);
    values[base + lane] = scratch[base + (lane + 32) % 128];
}
