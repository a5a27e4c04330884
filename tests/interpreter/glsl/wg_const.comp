#version 460
layout(local_size_x = 24) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  o[i] = gl_WorkGroupSize.x * 1000 + gl_LocalInvocationIndex;
}
