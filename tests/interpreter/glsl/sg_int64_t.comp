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
  int64_t x = int64_t(int(a[i] & 63u) - 20);
  at = i * 64;
  w(uint(subgroupAdd(x)));
  w(uint(subgroupMin(x)));
  w(uint(subgroupMax(x)));
  w(uint(subgroupInclusiveAdd(x)));
  w(uint(subgroupExclusiveAdd(x)));
  w(uint(subgroupInclusiveMax(x)));
  w(uint(subgroupClusteredAdd(x,4)));
  w(uint(subgroupClusteredMin(x,2)));
  w(uint(subgroupBroadcast(x,3)));
  w(uint(subgroupBroadcastFirst(x)));
  w(uint(subgroupShuffle(x,(gl_SubgroupInvocationID*5u)%8u)));
  w(uint(subgroupShuffleXor(x,3)));
  w(uint(subgroupQuadBroadcast(x,2)));
  w(uint(subgroupQuadSwapHorizontal(x)));
  w(uint(subgroupQuadSwapVertical(x)));
  w(uint(subgroupQuadSwapDiagonal(x)));
  w(uint(int64_t(subgroupAllEqual(x))));
  w(uint(min(x, subgroupExclusiveMin(x))));
  w(uint(subgroupAnd(x)));
  w(uint(subgroupOr(x)));
  w(uint(subgroupXor(x)));
  w(uint(subgroupExclusiveXor(x)));
  w(uint(subgroupInclusiveAnd(x)));
  w(uint(subgroupClusteredOr(x,4)));
  w(uint(subgroupMul(x)));
  if ((i & 2u) == 0u) {
    w(uint(subgroupAdd(x)));
    w(uint(subgroupInclusiveAdd(x)));
    w(uint(subgroupAny(x > int64_t(3))));
  }
}
