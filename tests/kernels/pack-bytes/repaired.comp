#version 450
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
// Quantizes numbers in -1 ... 1 to signed bytes.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Bytes { int8_t bytes[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    int q = int(round(clamp(x[i], -1.0, 1.0) * 127.0));
    bytes[i] = int8_t(q);
}
