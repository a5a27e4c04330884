#version 450
// Prefix maxima of the blocks that are chosen.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Chosen { uint chosen[]; };
layout(std430, binding = 1) buffer Blocks { uint blocks[]; };

shared uint best[2][32];

void main() {
    if (chosen[gl_WorkGroupID.x] == 0)
        return;
    uint i = gl_GlobalInvocationID.x, lane = gl_LocalInvocationID.x, now = 0;
    best[0][lane] = blocks[i];
    barrier();
    for (uint step = 1; step < 32; step *= 2) {
        best[1 - now][lane] = max(best[now][lane], lane < step ? 0u : best[now][lane - step]);
        now = 1 - now;
        barrier();
    }
    blocks[i] = best[now][lane];
}
