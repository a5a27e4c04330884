#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
// Fills two rows, one workgroup a row.
layout(local_size_x = 16) in;
layout(buffer_reference, buffer_reference_align = 4, std430) writeonly buffer Row { uint v[16]; };
layout(push_constant) uniform Parameters { uint64_t even; uint64_t odd; };
layout(std430, binding = 0) buffer Counter { uint rows; };

void main() {
    Row row = Row((gl_WorkGroupID.x & 1u) == 0 ? even : odd);
    row.v[gl_LocalInvocationID.x] = gl_GlobalInvocationID.x;
    if (gl_LocalInvocationID.x == 0)
        atomicAdd(rows, 1);
}
