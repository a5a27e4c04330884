#version 450
// Each invocation keeps the indices of its block's positive numbers, 8 at most.
layout(local_size_x = 16) in;
layout(push_constant) uniform Sizes { uint block; };
layout(std430, binding = 0) readonly buffer Input { int x[]; };
layout(std430, binding = 1) writeonly buffer Output { uint sums[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint kept[8];
    uint count = 0;
    for (uint k = 0; k < block; ++k) {
        if (x[i * block + k] <= 0)
            continue;
        if (count == 8)
            break;
        kept[count++] = k;
    }
    uint sum = 0;
    for (uint k = 0; k < count; ++k)
        sum += kept[k];
    sums[i] = sum;
}
