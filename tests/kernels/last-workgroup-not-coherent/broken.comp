#version 450
// The largest of all numbers in one launch; the last workgroup looks at the others' results.
layout(local_size_x = 1) in;
layout(push_constant) uniform Sizes { uint block; };
layout(std430, binding = 0) readonly buffer Input { int x[]; };
layout(std430, binding = 1) buffer Partials { int partials[]; };
layout(std430, binding = 2) buffer Counter { uint finished; };
layout(std430, binding = 3) writeonly buffer Result { int largest; };

void main() {
    uint group = gl_WorkGroupID.x;
    int value = x[group * block];
    for (uint i = 1; i < block; ++i)
        value = max(value, x[group * block + i]);
    partials[group] = value;
    memoryBarrierBuffer();
    if (atomicAdd(finished, 1) != gl_NumWorkGroups.x - 1)
        return;
    memoryBarrierBuffer();
    for (uint i = 0; i < gl_NumWorkGroups.x; ++i)
        value = max(value, partials[i]);
    largest = value;
}
