#version 450
// Counting sort's ranks of 32 digits below 8.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Digits { uint digits[]; };
layout(std430, binding = 1) writeonly buffer Ranks { uint ranks[]; };

shared uint stage[32];

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint mine = digits[lane];
    stage[lane] = mine;
    barrier();
    uint before = 0;
    for (uint i = 0; i < lane; ++i)
        before += uint(stage[i] == mine);
    barrier();
    if (lane < 8)
        stage[lane] = 0;
    barrier();
    atomicAdd(stage[mine], 1);
    barrier();
    for (uint d = 0; d < mine; ++d)
        before += stage[d];
    ranks[lane] = before;
}
