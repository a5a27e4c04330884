#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
// Writes the squares of 1 ... n to memory that is given by its address.
layout(local_size_x = 16) in;
layout(buffer_reference, buffer_reference_align = 4, std430) writeonly buffer Squares { uint v[]; };
layout(push_constant) uniform Parameters { uint64_t squares; uint n; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n)
        Squares(squares).v[i] = i * i;
}
