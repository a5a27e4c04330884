#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
// A pipeline of workgroups: each takes the row of the one before, doubles it and passes it on.
layout(local_size_x = 16) in;
layout(std430, binding = 0) nonprivate buffer Rows { uint rows[]; };
layout(std430, binding = 1) nonprivate buffer Ready { uint ready[]; };

const int BUFFER = gl_StorageSemanticsBuffer;
const int BOTH = gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible;

void main() {
    uint group = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
    if (group != 0) {
        if (lane == 0) {
            while (atomicLoad(ready[group - 1], gl_ScopeDevice, BUFFER,
                              gl_SemanticsAcquire | gl_SemanticsMakeVisible) == 0) {}
        }
        controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, BUFFER, BOTH);
        rows[group * 16 + lane] = 2 * rows[(group - 1) * 16 + 15 - lane];
    }
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, BUFFER, BOTH);
    if (lane == 0)
        atomicStore(ready[group], 1u, gl_ScopeDevice, BUFFER,
                    gl_SemanticsRelease | gl_SemanticsMakeAvailable);
}
