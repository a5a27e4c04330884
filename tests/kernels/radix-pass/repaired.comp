#version 450
// Sorts 64 keys by one digit of 2 bits, stably, in one workgroup.
layout(local_size_x = 64) in;
layout(push_constant) uniform Pass { uint shift; };
layout(std430, binding = 0) readonly buffer Keys { uint keys[]; };
layout(std430, binding = 1) writeonly buffer Sorted { uint sorted[]; };

shared uint counts[4];
shared uint first[4];
shared uint digits[64];

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint key = keys[lane], digit = (key >> shift) & 3u;
    digits[lane] = digit;
    if (lane < 4)
        counts[lane] = 0;
    barrier();
    atomicAdd(counts[digit], 1);
    barrier();
    if (lane == 0) {
        uint sum = 0;
        for (uint d = 0; d < 4; ++d) {
            first[d] = sum;
            sum += counts[d];
        }
    }
    barrier();
    uint rank = 0;
    for (uint i = 0; i < lane; ++i)
        rank += digits[i] == digit ? 1u : 0u;
    sorted[first[digit] + rank] = key;
}
