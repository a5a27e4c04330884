#version 450
// Reverses blocks as large as the workgroup.
layout(local_size_x_id = 0, local_size_x = 64) in;
layout(std430, binding = 0) buffer Values { float values[]; };

shared float tile[gl_WorkGroupSize.x];

void main() {
    uint lane = gl_LocalInvocationID.x;
    tile[lane] = values[gl_GlobalInvocationID.x];
    barrier();
    values[gl_GlobalInvocationID.x] = tile[gl_WorkGroupSize.x - 1 - lane];
}
