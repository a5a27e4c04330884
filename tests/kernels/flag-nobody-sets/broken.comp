#version 450
// A chain of workgroups, each of which adds to what the one before it left.
layout(local_size_x = 1) in;
layout(std430, binding = 0) coherent buffer Chain { uint turn; uint sum; };
layout(std430, binding = 1) readonly buffer Values { uint values[]; };

void main() {
    uint group = gl_WorkGroupID.x;
    while (atomicAdd(turn, 0) != group) {}
    memoryBarrierBuffer();
    sum += values[group];
    memoryBarrierBuffer();
    if (group + 2 < gl_NumWorkGroups.x)
        atomicAdd(turn, 1);
}
