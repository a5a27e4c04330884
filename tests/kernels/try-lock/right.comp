#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
// A sample of the invocations' numbers: whoever finds the lock free.
layout(local_size_x = 8) in;
layout(std430, binding = 0) buffer Lock { uint lock; };
layout(std430, binding = 1) nonprivate buffer Sample { uint count; uint sum; };

const int BUFFER = gl_StorageSemanticsBuffer;

void main() {
    uint before = atomicCompSwap(lock, 0u, 1u, gl_ScopeDevice,
                                 BUFFER, gl_SemanticsAcquire | gl_SemanticsMakeVisible,
                                 0, gl_SemanticsRelaxed);
    if (before == 0) {
        count += 1;
        sum += 1;
        atomicStore(lock, 0u, gl_ScopeDevice, BUFFER,
                    gl_SemanticsRelease | gl_SemanticsMakeAvailable);
    }
}
