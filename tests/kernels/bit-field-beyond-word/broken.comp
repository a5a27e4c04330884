#version 450
// Unpacks 5-bit numbers that lie without gaps in 32-bit words.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Packed { uint words[]; };
layout(std430, binding = 1) writeonly buffer Output { uint y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    uint bit = i * 5, word = bit / 32, offset = bit % 32;
    y[i] = bitfieldExtract(words[word], int(offset), 5);
}
