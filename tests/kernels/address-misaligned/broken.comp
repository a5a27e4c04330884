#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
// Sums of rows of 4 floats, found through an address.
layout(local_size_x = 8) in;
layout(buffer_reference, buffer_reference_align = 16, std430) readonly buffer Row { vec4 v; };
layout(push_constant) uniform Parameters { uint64_t table; uint stride; };
layout(std430, binding = 0) writeonly buffer Output { float y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    vec4 row = Row(table + uint64_t(i * stride)).v;
    y[i] = row.x + row.y + row.z + row.w;
}
