#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
// A histogram's prefix sum through a coherent buffer, in one workgroup.
layout(local_size_x = 64) in;
layout(std430, binding = 0) workgroupcoherent buffer Counts { uint counts[]; };

void main() {
    uint lane = gl_LocalInvocationID.x;
    for (uint step = 1; step < 64; step *= 2) {
        uint other = lane < step ? 0 : counts[lane - step];
        controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer,
                       gl_SemanticsAcquireRelease);
        counts[lane] += other;
        controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer,
                       gl_SemanticsAcquireRelease);
    }
}
