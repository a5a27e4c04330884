#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
// (x - mean) / sqrt(variance + epsilon), a row of 128 a workgroup.
layout(local_size_x = 128) in;
layout(push_constant) uniform Parameters { float epsilon; };
layout(std430, binding = 0) buffer Rows { float rows[]; };

shared float sums[128];

float add_all(float value) {
    float part = subgroupAdd(value);
    if (subgroupElect())
        sums[gl_SubgroupID] = part;
    barrier();
    float total = 0.0;
    for (uint i = 0; i < gl_NumSubgroups; ++i)
        total += sums[i];
    barrier();
    return total;
}

void main() {
    uint i = gl_GlobalInvocationID.x;
    float x = rows[i];
    float mean = add_all(x) / 128.0;
    float variance = add_all((x - mean) * (x - mean)) / 128.0;
    rows[i] = (x - mean) * inversesqrt(variance + epsilon);
}
