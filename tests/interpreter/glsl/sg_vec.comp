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
uint at;
void w(uint x) {
  o[at++] = x;
}
void main() {
  uint i = gl_GlobalInvocationID.x;
  vec3 v = vec3(a[i] & 7u, i, 3);
  ivec2 q = ivec2(i, -int(i));
  bool b = (i & 1u) == 0u;
  at=i*32;
  w(uint(subgroupAdd(v).x));
  w(uint(subgroupMax(q).y));
  w(uint(subgroupAnd(b)));
  w(uint(subgroupOr(b)));
  w(uint(subgroupXor(b)));
  uvec4 bl = subgroupBallot(b);
  w(bl.x);
  w(bl.y);
  w(uint(subgroupInverseBallot(bl)));
  w(uint(subgroupBallotBitExtract(bl, 3)));
  w(subgroupBallotBitCount(bl));
  w(subgroupBallotInclusiveBitCount(bl));
  w(subgroupBallotExclusiveBitCount(bl));
  w(subgroupBallotFindLSB(bl));
  w(subgroupBallotFindMSB(bl));
  w(uint(subgroupElect()));
  w(uint(subgroupAll(b)));
  w(gl_SubgroupSize);
  w(gl_SubgroupID);
  w(gl_NumSubgroups);
  w(gl_SubgroupEqMask.x);
  w(gl_SubgroupLtMask.x+gl_SubgroupGeMask.x+gl_SubgroupGtMask.x+gl_SubgroupLeMask.x);
  w(uint(subgroupBroadcast(v,2).y));
  w(uint(subgroupBroadcast(b,2)));
  w(uint(subgroupShuffle(q,gl_SubgroupInvocationID^1u).x));
  subgroupBarrier();
  subgroupMemoryBarrier();
  subgroupMemoryBarrierShared();
  bvec2 bb = bvec2(b, !b);
  w(uint(subgroupAllEqual(bb)));
}
