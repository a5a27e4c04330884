#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Output { float sums[]; };
layout(push_constant) uniform Parameters { uint n; float scale; };
shared float tile[64];
void main() {
    uint i = gl_GlobalInvocationID.x, l = gl_LocalInvocationID.x;
    float value = i < n ? x[i] : 0.0;
    tile[l] = value * scale;
    for (uint s = 32; s > 0; s /= 2) {
        if (l < s)
            tile[l] += tile[l + s];
        barrier();
    }
    if (l == 0)
        sums[gl_WorkGroupID.x] = tile[0];
}
