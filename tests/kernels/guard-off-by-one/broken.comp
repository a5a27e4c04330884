#version 450
// Dequantizes blocks of 32 4-bit numbers with a scale each.
layout(local_size_x = 32) in;
layout(push_constant) uniform Parameters { uint n; };
layout(std430, binding = 0) readonly buffer Scales { float scales[]; };
layout(std430, binding = 1) readonly buffer Nibbles { uint nibbles[]; };
layout(std430, binding = 2) writeonly buffer Output { float y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i > n)
        return;
    uint word = nibbles[min(i, n - 1) / 8];
    int q = int(bitfieldExtract(word, int(i % 8) * 4, 4)) - 8;
    y[i] = scales[min(i, n - 1) / 32] * float(q);
}
