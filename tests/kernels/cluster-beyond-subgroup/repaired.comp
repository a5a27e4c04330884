#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_clustered : require
// The largest magnitude of each block of numbers, as a quantizer needs it.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Scales { float scales[]; };

const uint BLOCK = 8;

void main() {
    uint i = gl_GlobalInvocationID.x;
    float largest = subgroupClusteredMax(abs(x[i]), BLOCK);
    if (i % BLOCK == 0)
        scales[i / BLOCK] = largest / 127.0;
}
