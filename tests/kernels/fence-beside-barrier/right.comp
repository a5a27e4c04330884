#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
// Swaps pairs of numbers of a workgroup's block in place.
layout(local_size_x = 32) in;
layout(std430, binding = 0) nonprivate buffer Values { uint values[]; };

const int BOTH = gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible;

void main() {
    uint i = gl_GlobalInvocationID.x;
    values[i] += 100;
    memoryBarrier(gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, BOTH);
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, 0, 0);
    memoryBarrier(gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, BOTH);
    uint other = values[i ^ 1u];
    memoryBarrier(gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, BOTH);
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, 0, 0);
    memoryBarrier(gl_ScopeWorkgroup, gl_StorageSemanticsBuffer, BOTH);
    values[i] = other;
}
