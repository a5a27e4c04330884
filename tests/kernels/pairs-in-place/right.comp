#version 450
// Sums of pairs, in place.
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Values { uint values[]; };

shared uint scratch[64];

void main() {
    uint lane = gl_LocalInvocationID.x;
    scratch[lane] = values[gl_GlobalInvocationID.x];
    barrier();
    if ((lane & 1u) == 0) {
        uint a = scratch[lane];
        uint b = scratch[lane + 1];
        scratch[lane] = a + b;
    }
    barrier();
    values[gl_GlobalInvocationID.x] = scratch[lane];
}
