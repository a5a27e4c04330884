#version 450
// A 1-D box filter with a tile in shared memory; n is not a multiple of 64.
layout(local_size_x = 64) in;
layout(push_constant) uniform Sizes { uint n; };
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Output { float y[]; };

shared float tile[64];

void main() {
    uint i = gl_GlobalInvocationID.x, lane = gl_LocalInvocationID.x;
    if (i < n) {
        tile[lane] = x[i];
    }
        barrier();
    if (i < n) {
        uint left = max(lane, 1) - 1;
        y[i] = 0.5 * (tile[left] + tile[lane]);
    }
}
