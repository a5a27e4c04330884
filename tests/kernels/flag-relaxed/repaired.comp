#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
// Exclusive sums of tiles' totals: each workgroup waits for the one before it.
layout(local_size_x = 1) in;
layout(push_constant) uniform Sizes { uint tile; };
layout(std430, binding = 0) readonly buffer Input { uint x[]; };
layout(std430, binding = 1) nonprivate buffer Prefixes { uint prefixes[]; };
layout(std430, binding = 2) nonprivate buffer States { uint states[]; };

void main() {
    uint group = gl_WorkGroupID.x;
    uint total = 0;
    for (uint i = 0; i < tile; ++i)
        total += x[group * tile + i];
    if (group != 0) {
        while (atomicLoad(states[group - 1], gl_ScopeDevice, gl_StorageSemanticsBuffer,
                          gl_SemanticsAcquire | gl_SemanticsMakeVisible) == 0) {}
        total += prefixes[group - 1];
    }
    prefixes[group] = total;
    atomicStore(states[group], 1u, gl_ScopeDevice,
                gl_StorageSemanticsBuffer, gl_SemanticsRelease | gl_SemanticsMakeAvailable);
}
