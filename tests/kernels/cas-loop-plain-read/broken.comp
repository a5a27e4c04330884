#version 450
// The largest number, kept as bits in a buffer and raised by compare-and-swap.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) buffer Result { uint largest; };

void main() {
    float value = x[gl_GlobalInvocationID.x];
    uint seen = largest;
    while (value > uintBitsToFloat(seen)) {
        uint before = atomicCompSwap(largest, seen, floatBitsToUint(value));
        if (before == seen)
            break;
        seen = before;
    }
}
