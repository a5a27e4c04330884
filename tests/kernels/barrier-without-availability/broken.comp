#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
// Reverses each block of 64 numbers through scratch memory in a buffer.
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Values { float values[]; };
layout(std430, binding = 1) nonprivate buffer Scratch { float scratch[]; };

void main() {
    uint base = gl_WorkGroupID.x * 64, lane = gl_LocalInvocationID.x;
    scratch[base + lane] = values[base + lane];
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer,
                   gl_SemanticsAcquireRelease);
    values[base + lane] = scratch[base + 63 - lane];
}
