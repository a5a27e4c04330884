#version 460
#extension GL_KHR_shader_subgroup_basic : enable
#extension GL_KHR_shader_subgroup_arithmetic : enable
#extension GL_KHR_shader_subgroup_ballot : enable
#extension GL_KHR_shader_subgroup_vote : enable
#extension GL_KHR_shader_subgroup_shuffle : enable
#extension GL_KHR_shader_subgroup_shuffle_relative : enable
#extension GL_KHR_shader_subgroup_clustered : enable
#extension GL_KHR_shader_subgroup_quad : enable
#extension GL_EXT_shader_explicit_arithmetic_types : enable
#extension GL_EXT_shader_subgroup_extended_types_int8 : enable
#extension GL_EXT_shader_subgroup_extended_types_int16 : enable
#extension GL_EXT_shader_subgroup_extended_types_int64 : enable
#extension GL_EXT_shader_subgroup_extended_types_float16 : enable
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
uint at;
void w(uint x) {
  o[at++] = x;
}
void main() {
  uint i = gl_GlobalInvocationID.x;
  float x = float(int(a[i] & 63u) - 20);
  at = i * 64;
  w(uint(int(subgroupAdd(x))));
  w(uint(int(subgroupMin(x))));
  w(uint(int(subgroupMax(x))));
  w(uint(int(subgroupInclusiveAdd(x))));
  w(uint(int(subgroupExclusiveAdd(x))));
  w(uint(int(subgroupInclusiveMax(x))));
  w(uint(int(subgroupClusteredAdd(x,4))));
  w(uint(int(subgroupClusteredMin(x,2))));
  w(uint(int(subgroupBroadcast(x,3))));
  w(uint(int(subgroupBroadcastFirst(x))));
  w(uint(int(subgroupShuffle(x,(gl_SubgroupInvocationID*5u)%8u))));
  w(uint(int(subgroupShuffleXor(x,3))));
  w(uint(int(subgroupQuadBroadcast(x,2))));
  w(uint(int(subgroupQuadSwapHorizontal(x))));
  w(uint(int(subgroupQuadSwapVertical(x))));
  w(uint(int(subgroupQuadSwapDiagonal(x))));
  w(uint(int(float(subgroupAllEqual(x)))));
  w(uint(int(min(x, subgroupExclusiveMin(x)))));
  if ((i & 2u) == 0u) {
    w(uint(int(subgroupAdd(x))));
    w(uint(int(subgroupInclusiveAdd(x))));
    w(uint(subgroupAny(x > float(3))));
  }
}
