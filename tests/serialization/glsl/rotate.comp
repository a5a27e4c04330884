#version 460
#extension GL_KHR_shader_subgroup_rotate : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_clustered : require
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { float a[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  float v = a[i];
  v += subgroupRotate(v, 3) + subgroupClusteredRotate(v, 1, 8);
  v += subgroupAdd(v) + subgroupExclusiveMul(v) + subgroupShuffleXor(v, 1);
  uvec4 votes = subgroupBallot(v > 0.0);
  a[i] = subgroupClusteredMax(v, 4) + float(subgroupBallotBitCount(votes)) + float(gl_SubgroupID);
}
