#version 450
// Quantizes numbers in -1 ... 1 to signed bytes.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) buffer Bytes { uint words[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    int q = int(round(clamp(x[i], -1.0, 1.0) * 127.0));
    words[i / 4] = bitfieldInsert(words[i / 4], uint(q), int(i % 4) * 8, 8);
}
