#version 450
// Inclusive prefix sum of 64 numbers, from one half of the shared array to the other.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { int x[]; };
layout(std430, binding = 1) writeonly buffer Output { int y[]; };

shared int halves[2][64];

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint source = 0;
    halves[0][lane] = x[gl_GlobalInvocationID.x];
    barrier();
    for (uint step = 1; step < 64; step *= 2) {
        uint target = (step & 0xaau) != 0 ? 1 - source : source;
        int value = halves[source][lane];
        if (lane >= step)
            value += halves[source][lane - step];
        halves[target][lane] = value;
        source = target;
        barrier();
    }
    y[gl_GlobalInvocationID.x] = halves[source][lane];
}
