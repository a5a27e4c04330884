#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
// Each invocation that has work left stores the step of the first of them.
layout(local_size_x = 16) in;
layout(std430, binding = 0) readonly buffer Work { uint work[]; };
layout(std430, binding = 1) buffer Seen { uint seen[]; };

void main() {
    uint lane = gl_LocalInvocationID.x;
    for (uint step = 0; step < work[lane]; ++step) {
        uint first = subgroupBroadcastFirst(lane);
        seen[lane] += first;
    }
}
