#version 450
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
// Mirrors each block of 64 numbers.
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Values { int values[]; };

shared int tile[64];

void main() {
    uint i = gl_GlobalInvocationID.x, lane = gl_LocalInvocationID.x;
    tile[lane] = values[i];
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
    values[i] = tile[63 - lane];
}
