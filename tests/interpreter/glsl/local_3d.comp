#version 460
// grid: 2,1,2
layout(local_size_x=4, local_size_y=4, local_size_z=2) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  uvec3 g = gl_GlobalInvocationID;
  uint j = g.x + g.y * 8 + g.z * 32;
  o[j] = gl_LocalInvocationID.x + gl_LocalInvocationID.y * 10 + gl_LocalInvocationID.z * 100 + gl_WorkGroupID.x * 1000 + gl_WorkGroupID.z * 10000 + gl_NumWorkGroups.z;
  o[j + 1000] = gl_LocalInvocationIndex;
}
