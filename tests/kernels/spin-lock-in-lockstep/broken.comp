#version 450
// Each invocation appends to a shared list under a lock.
layout(local_size_x = 8) in;
layout(std430, binding = 0) coherent buffer List { uint lock; uint size; uint items[]; };

void append(uint item) {
    items[size] = item;
    size += 1;
}

void main() {
    while (atomicCompSwap(lock, 0, 1) != 0) {}
    memoryBarrierBuffer();
    append(gl_LocalInvocationID.x);
    memoryBarrierBuffer();
    atomicExchange(lock, 0);
}
