#version 450
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
// Interleaves two planes of bytes.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Planes { uint8_t planes[2][64]; };
layout(std430, binding = 1) writeonly buffer Pixels { uint8_t pixels[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    pixels[2 * i] = planes[0][i];
    pixels[2 * i + 1] = planes[1][i];
}
