#version 450
// Workgroups take tiles of 32 numbers from a queue until none is left.
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { uint tiles; };
layout(std430, binding = 0) buffer Queue { uint next; };
layout(std430, binding = 1) buffer Tiles { float x[]; };

shared uint ticket;

void main() {
    while (true) {
        if (gl_LocalInvocationID.x == 0)
            ticket = atomicAdd(next, 1);
        barrier();
        if (ticket >= tiles)
            break;
        uint i = ticket * 32 + gl_LocalInvocationID.x;
        x[i] = max(x[i], 0.0);
    }
}
