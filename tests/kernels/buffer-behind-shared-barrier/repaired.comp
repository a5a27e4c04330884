#version 450
// Transposes each block of 8 x 8 through scratch memory in a buffer.
layout(local_size_x = 8, local_size_y = 8) in;
layout(std430, binding = 0) buffer Blocks { float blocks[]; };
layout(std430, binding = 1) coherent buffer Scratch { float scratch[]; };

void main() {
    uint base = gl_WorkGroupID.x * 64;
    uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
    scratch[base + y * 8 + x] = blocks[base + y * 8 + x];
    memoryBarrierBuffer();
    barrier();
    memoryBarrierBuffer();
    blocks[base + y * 8 + x] = scratch[base + x * 8 + y];
}
