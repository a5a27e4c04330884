#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
// Stream compaction: positive numbers to the front, space taken per subgroup.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { int x[]; };
layout(std430, binding = 1) writeonly buffer Output { int y[]; };
layout(std430, binding = 2) buffer Counter { uint count; };

shared uint offsets[64];

void main() {
    int value = x[gl_GlobalInvocationID.x];
    uvec4 chosen = subgroupBallot(value > 0);
    if (subgroupElect())
        offsets[gl_SubgroupID] = atomicAdd(count, subgroupBallotBitCount(chosen));
    subgroupBarrier();
    uint place = offsets[gl_SubgroupID] + subgroupBallotExclusiveBitCount(chosen);
    if (value > 0)
        y[place] = value;
}
