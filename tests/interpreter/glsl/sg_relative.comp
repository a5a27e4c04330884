#version 460
#extension GL_KHR_shader_subgroup_basic : enable
#extension GL_KHR_shader_subgroup_arithmetic : enable
#extension GL_KHR_shader_subgroup_ballot : enable
#extension GL_KHR_shader_subgroup_vote : enable
#extension GL_KHR_shader_subgroup_shuffle : enable
#extension GL_KHR_shader_subgroup_shuffle_relative : enable
#extension GL_KHR_shader_subgroup_clustered : enable
#extension GL_KHR_shader_subgroup_quad : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  uint l = gl_SubgroupInvocationID;
  uint u = subgroupShuffleUp(i, 1), d = subgroupShuffleDown(i, 2);
  o[i] = l >= 1u ? u : 7u;
  o[i+64] = l + 2u < gl_SubgroupSize ? d : 9u;
  o[i+128]=subgroupClusteredMul(i&3u,2u);
  o[i+192]=uint(subgroupClusteredXor((i&1u)==1u,4u));
}
