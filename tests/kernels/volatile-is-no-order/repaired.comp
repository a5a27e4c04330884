#version 450
// The first workgroup makes a table, the others use it.
layout(local_size_x = 1) in;
layout(std430, binding = 0) coherent buffer Table { uint table[8]; };
layout(std430, binding = 1) coherent buffer Flag { uint ready; };
layout(std430, binding = 2) writeonly buffer Output { uint y[]; };

void main() {
    uint group = gl_WorkGroupID.x;
    if (group == 0) {
        for (uint i = 0; i < 8; ++i)
            table[i] = i * i;
        memoryBarrierBuffer();
        atomicExchange(ready, 1);
    } else {
        while (atomicOr(ready, 0) == 0) {}
        memoryBarrierBuffer();
    }
    y[group] = table[group];
}
