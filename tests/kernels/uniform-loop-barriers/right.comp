#version 450
// Each workgroup sorts its row of 32 by odd-even transposition, in as many rounds as its row says.
layout(local_size_x = 16) in;
layout(std430, binding = 0) readonly buffer Rounds { uint rounds[]; };
layout(std430, binding = 1) buffer Rows { int rows[]; };

shared int row[32];

void main() {
    uint lane = gl_LocalInvocationID.x, base = gl_WorkGroupID.x * 32;
    row[lane] = rows[base + lane];
    row[lane + 16] = rows[base + lane + 16];
    barrier();
    for (uint k = 0; k < rounds[gl_WorkGroupID.x]; ++k) {
        uint i = 2 * lane + (k & 1u);
        if (i < 31 && row[i] > row[i + 1]) {
            int t = row[i];
            row[i] = row[i + 1];
            row[i + 1] = t;
        }
        barrier();
    }
    rows[base + lane] = row[lane];
    rows[base + lane + 16] = row[lane + 16];
}
