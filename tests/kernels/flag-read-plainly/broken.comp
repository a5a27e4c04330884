#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
// Message passing from one workgroup to the next.
layout(local_size_x = 1) in;
layout(std430, binding = 0) nonprivate buffer Message { uint message; };
layout(std430, binding = 1) nonprivate buffer Flag { uint flag; };
layout(std430, binding = 2) writeonly buffer Output { uint received; };

void main() {
    if (gl_WorkGroupID.x == 0) {
        message = 17;
        atomicStore(flag, 1u, gl_ScopeDevice, gl_StorageSemanticsBuffer,
                    gl_SemanticsRelease | gl_SemanticsMakeAvailable);
    } else {
        while (flag == 0) {}
        memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer,
                      gl_SemanticsAcquire | gl_SemanticsMakeVisible);
        received = message;
    }
}
