#version 450
// Ragged rows: every row is scaled by the largest entry of its column block so far.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Lengths { uint lengths[]; };
layout(std430, binding = 1) buffer Rows { float rows[]; };

shared float peak[32];
shared uint longest;

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint mine = lengths[lane];
    if (lane == 0)
        longest = 0;
    barrier();
    atomicMax(longest, mine);
    barrier();
    for (uint k = 0; k < mine; ++k) {
        peak[lane] = k < mine ? rows[lane * 16 + k] : 1.0;
        barrier();
        float largest = max(peak[lane], peak[lane ^ 1u]);
        barrier();
        if (k < mine)
            rows[lane * 16 + k] /= largest;
    }
}
