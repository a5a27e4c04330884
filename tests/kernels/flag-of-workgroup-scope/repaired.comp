#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
// One workgroup produces 32 numbers, the next one consumes them.
layout(local_size_x = 32) in;
layout(std430, binding = 0) devicecoherent buffer Message { uint message[32]; };
layout(std430, binding = 1) buffer Flag { uint flag; };
layout(std430, binding = 2) writeonly buffer Output { uint received[32]; };

const int SCOPE = gl_ScopeDevice;

void main() {
    uint lane = gl_LocalInvocationID.x;
    if (gl_WorkGroupID.x == 0) {
        message[lane] = lane * 3;
        controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer,
                       gl_SemanticsAcquireRelease);
        if (lane == 0)
            atomicStore(flag, 1u, SCOPE, gl_StorageSemanticsBuffer, gl_SemanticsRelease);
    } else {
        if (lane == 0)
            while (atomicLoad(flag, SCOPE, gl_StorageSemanticsBuffer, gl_SemanticsAcquire) == 0) {}
        controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer,
                       gl_SemanticsAcquireRelease);
        received[lane] = message[31 - lane];
    }
}
